#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "contract/record/event.h"
#include "contract/record/run_paths.h"
#include "trainer/checkpoint/trainer_state.h"
#include "trainer/checkpoint/writer_thread.h"
#include "trainer/comm/process_group.h"
#include "trainer/model/model.h"

namespace fsdp {

// The name of sharded weights: the stem of their files and the name of the state.
inline constexpr const char* kWeights = "weights";
// The stem of the files of optimizer state. The optimizer names the states: "exp_avg", ...
inline constexpr const char* kOptimizer = "optimizer";

// Elements [offset, offset + part.numel()) of one flattened state of one parameter.
struct Piece {
  std::string state;  // kWeights, "exp_avg", ...; without '/'
  const Parameter& parameter;
  int64_t offset;
  at::Tensor part;  // 1-dimensional, contiguous, on any device
};

// One rank's part in writing a checkpoint. Files go into <run>/checkpoints/step-<N>.partial, which
// becomes step-<N> when every rank's files are on the disk. Until then, and after any error,
// earlier checkpoints stay unchanged.
//
// All ranks construct it at the same time. The constructor waits for rank 0. Then each rank writes
// its data and calls finish_later(). From then on the rank may train. The writer's thread syncs the
// files, and on rank 0 completes the checkpoint. The rank calls advance() from time to time. Only
// rank 0 waits for other ranks, and only in advance(true).
//
// Errors are std::runtime_errors that name the file and the remedy. After an error the rank must
// end, or the other ranks would wait for it.
class CheckpointWriter {
 public:
  // The first `shard_ranks` ranks together hold every state once, and only they write pieces.
  // `shard_ranks` is 1 for ddp, the shard group's size for hybrid_shard, and the number of ranks
  // for full_shard.
  CheckpointWriter(RunPaths paths, int64_t step, ProcessGroup& world, int shard_ranks,
                   const Backend& backend,
                   std::shared_ptr<WriterThread::HostBuffers> buffers =
                       std::make_shared<WriterThread::HostBuffers>());

  // The folder and the thread with which rank 0 writes full weights (see FullWeightsWriter).
  const std::filesystem::path& folder() const { return folder_; }
  WriterThread& thread() { return thread_; }

  // Writes this rank's pieces to <stem>.rank<R>.safetensors. Returns when the pieces may change.
  // Every rank calls it once for each stem, even without pieces. It does nothing on ranks that
  // write no pieces.
  void write_pieces(const std::string& stem, const std::vector<Piece>& pieces);

  // Adds a task that the thread runs after finish_later(). `finish` brings files to the disk and
  // returns their checksums. Rank 0 computes the checksums of files that no task returned.
  void add_files(std::function<Checksums()> finish);

  // Call it when everything is written. Removes older checkpoints, except the `keep` newest and the
  // one with the lowest validation loss. Without `keep`, all stay. Fills in the step, the world
  // size and the files of `state`.
  void finish_later(TrainerState state, std::optional<int64_t> keep);

  // Does the work that is possible now, or all of it if `waits`. Returns true, once, when nothing
  // is left: this rank's files are on the disk, and on rank 0 the checkpoint is complete.
  bool advance(bool waits);

  // Valid on rank 0 after advance() has returned true.
  const CheckpointDone& done() const { return done_; }

 private:
  std::string checksums_key(int rank) const;
  // On rank 0, takes the checksums that other ranks have left. Returns true if it has all.
  bool take_checksums(bool waits);
  std::vector<CheckpointFile> list_files() const;
  void complete();

  RunPaths paths_;
  int64_t step_;
  ProcessGroup& world_;
  int shard_ranks_;
  std::filesystem::path folder_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<std::function<Checksums()>> unfinished_;
  TrainerState state_;
  std::optional<int64_t> keep_;
  Checksums checksums_;  // of this rank's files; on rank 0, also of other ranks'
  int ranks_taken_ = 1;  // the number of ranks whose checksums rank 0 has
  std::shared_future<void> synced_;
  std::shared_future<void> completed_;
  CheckpointDone done_;
  WriterThread thread_;  // last, so it ends before the members that its tasks use
};

}  // namespace fsdp
