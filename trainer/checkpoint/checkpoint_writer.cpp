#include "trainer/checkpoint/checkpoint_writer.h"

#include "trainer/checkpoint/checkpoint_folders.h"
#include "trainer/checkpoint/checksum.h"
#include "trainer/checkpoint/output_file.h"
#include "trainer/checkpoint/piece_file.h"

namespace fsdp {

using std::filesystem::path;

CheckpointWriter::CheckpointWriter(RunPaths paths, int64_t step, ProcessGroup& world,
                                   int shard_ranks)
    : paths_(std::move(paths)), step_(step), world_(world), shard_ranks_(shard_ranks) {
  TORCH_CHECK(shard_ranks >= 1 && shard_ranks <= world.size());
  const path folder = world_.rank() == 0 ? create_partial_checkpoint(paths_, step_) : path();
  folder_ = world_.agree("checkpoint_folder", folder.string());
}

void CheckpointWriter::write_pieces(const std::string& stem, const std::vector<Piece>& pieces) {
  TORCH_CHECK(stems_.insert(stem).second, stem, " is written twice");
  if (world_.rank() >= shard_ranks_) return;
  const std::string name = piece_file_name(stem, world_.rank());
  world_.leave(checksum_key(name), write_piece_file(folder_ / name, pieces));
}

void CheckpointWriter::add_checksums(std::map<std::string, std::string> checksums) {
  checksums_.merge(checksums);
}

std::string CheckpointWriter::checksum_key(const std::string& name) const {
  return "checksum/" + std::to_string(step_) + '/' + name;
}

CheckpointDone CheckpointWriter::finish(TrainerState state, std::optional<int64_t> keep) {
  world_.barrier();
  const int64_t size_bytes = world_.rank() == 0 ? complete(std::move(state), keep) : 0;
  // Nobody is done before the checkpoint is complete.
  const std::string agreed = world_.agree("checkpoint_bytes", std::to_string(size_bytes));
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin_;
  return {.step = step_,
          .path = std::filesystem::relative(paths_.checkpoint(step_), paths_.folder()).string(),
          .size_bytes = std::stoll(agreed),
          .write_time_ms = time.count()};
}

std::map<std::string, std::string> CheckpointWriter::take_checksums() const {
  std::map<std::string, std::string> checksums = checksums_;
  for (const std::string& stem : stems_) {
    for (int rank = 0; rank < shard_ranks_; ++rank) {
      const std::string name = piece_file_name(stem, rank);
      checksums[name] = world_.take(checksum_key(name));
    }
  }
  return checksums;
}

std::vector<CheckpointFile> CheckpointWriter::list_files() const {
  // A network file system may not list yet what other hosts have made, but finds it by its name.
  std::map<std::string, std::string> checksums = take_checksums();
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const auto [known, is_new] = checksums.try_emplace(entry.path().filename());
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

int64_t CheckpointWriter::complete(TrainerState state, std::optional<int64_t> keep) const {
  state.step = step_;
  state.world_size = world_.size();
  state.files = list_files();
  const std::string text = to_json(state);
  write_file(folder_ / kTrainerStateName, text);
  publish_checkpoint(paths_, step_);
  if (keep) remove_old_checkpoints(paths_, step_, *keep);
  auto size_bytes = static_cast<int64_t>(text.size());
  for (const CheckpointFile& file : state.files) size_bytes += file.size_bytes;
  return size_bytes;
}

}  // namespace fsdp
