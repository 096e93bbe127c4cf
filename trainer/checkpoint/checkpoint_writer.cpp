// Writes one rank's files of a checkpoint. trainer.json comes last and makes the folder complete.
#include "trainer/checkpoint/checkpoint_writer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/checkpoint/checkpoint_folders.h"
#include "trainer/checkpoint/checksum.h"
#include "trainer/checkpoint/output_file.h"
#include "trainer/checkpoint/piece_file.h"

namespace fsdp {

using std::filesystem::path;

namespace {

// True if the task is done. If `waits`, waits for the task. Rethrows the task's exception.
bool is_done(const std::shared_future<void>& task, bool waits) {
  if (!waits && task.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
  task.get();
  return true;
}

}  // namespace

CheckpointWriter::CheckpointWriter(RunPaths paths, int64_t step, ProcessGroup& world,
                                   int shard_ranks, const Backend& backend,
                                   std::shared_ptr<WriterThread::HostBuffers> buffers)
    : paths_(std::move(paths)),
      step_(step),
      world_(world),
      shard_ranks_(shard_ranks),
      thread_(backend, WriterThread::kBufferBytes, std::move(buffers)) {
  TORCH_CHECK(shard_ranks >= 1 && shard_ranks <= world.size());
  const path folder = world_.rank() == 0 ? create_partial_checkpoint(paths_, step_) : path();
  folder_ = world_.agree("checkpoint_folder", folder.string());
}

void CheckpointWriter::write_pieces(const std::string& stem, const std::vector<Piece>& pieces) {
  if (world_.rank() >= shard_ranks_) return;
  const std::string name = piece_file_name(stem, world_.rank());
  std::shared_ptr<SafetensorsWriter> file = write_piece_file(folder_ / name, pieces, thread_);
  add_files([file, name] { return Checksums{{name, file->finish()}}; });
}

void CheckpointWriter::add_files(std::function<Checksums()> finish) {
  unfinished_.push_back(std::move(finish));
}

void CheckpointWriter::finish_later(TrainerState state, std::optional<int64_t> keep) {
  state_ = std::move(state);
  keep_ = keep;
  synced_ = thread_.post([this] {
    for (const auto& finish : unfinished_) checksums_.merge(finish());
  });
}

bool CheckpointWriter::advance(bool waits) {
  if (!is_done(synced_, waits)) return false;
  if (world_.rank() != 0) {
    // The store carries checksums without a collective, so no rank waits for another.
    if (world_.rank() < shard_ranks_) {
      world_.leave(checksums_key(world_.rank()), nlohmann::json(checksums_).dump());
    }
    return true;
  }
  if (!take_checksums(waits)) return false;
  if (!completed_.valid()) completed_ = thread_.post([this] { complete(); });
  return is_done(completed_, waits);
}

std::string CheckpointWriter::checksums_key(int rank) const {
  return "checksums/" + std::to_string(step_) + "/rank" + std::to_string(rank);
}

bool CheckpointWriter::take_checksums(bool waits) {
  for (; ranks_taken_ < shard_ranks_; ++ranks_taken_) {
    const std::string key = checksums_key(ranks_taken_);
    if (!waits && !world_.is_left(key)) return false;
    checksums_.merge(nlohmann::json::parse(world_.take(key)).get<Checksums>());
  }
  return true;
}

std::vector<CheckpointFile> CheckpointWriter::list_files() const {
  // A network file system may not list other hosts' new files yet, but finds them by name.
  Checksums checksums = checksums_;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
    if (entry.is_directory()) continue;
    const auto [known, is_new] = checksums.try_emplace(entry.path().lexically_relative(folder_));
    if (is_new) known->second = checksum_of_file(entry.path());
  }
  std::vector<CheckpointFile> files;
  for (const auto& [name, checksum] : checksums) {
    std::error_code error;
    const auto size = std::filesystem::file_size(folder_ / name, error);
    if (error) {
      throw std::system_error(
          error, (folder_ / name).string() +
                     ": written by another rank, but rank 0 does not find it; put the results "
                     "folder on a file system that all hosts share");
    }
    files.push_back({.name = name, .size_bytes = static_cast<int64_t>(size), .xxh3_128 = checksum});
  }
  return files;
}

void CheckpointWriter::complete() {
  state_.step = step_;
  state_.world_size = world_.size();
  state_.files = list_files();
  // Last of all files: a folder that has it is complete.
  const std::string text = to_json(state_);
  write_file(folder_ / kTrainerStateName, text);
  publish_checkpoint(paths_, step_);
  if (keep_) remove_old_checkpoints(paths_, step_, *keep_);
  auto size_bytes = static_cast<int64_t>(text.size());
  for (const CheckpointFile& file : state_.files) size_bytes += file.size_bytes;
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin_;
  done_ = {.step = step_,
           .path = std::filesystem::relative(paths_.checkpoint(step_), paths_.folder()).string(),
           .size_bytes = size_bytes,
           .write_time_ms = time.count()};
}

}  // namespace fsdp
