#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "contract/record/event.h"
#include "contract/record/run_paths.h"
#include "trainer/checkpoint/trainer_state.h"
#include "trainer/comm/process_group.h"
#include "trainer/model/model.h"

namespace fsdp {

// Sharded weights: both the file's stem and the state's name.
inline constexpr const char* kWeights = "weights";
// The stem of optimizer state's files; the states' names are the optimizer's.
inline constexpr const char* kOptimizer = "optimizer";

// Elements [offset, offset + part.numel()) of one state of one parameter, both flattened.
struct Piece {
  std::string state;  // kWeights, "exp_avg", ...; without '/'
  const Parameter& parameter;
  int64_t offset;
  at::Tensor part;  // 1-dimensional, contiguous, on any device
};

// One rank's side of writing a checkpoint: into <run>/checkpoints/step-<N>.partial, which becomes
// step-<N> when every rank's files are on the disk. Until then, and after any error, earlier
// checkpoints are as they were.
//
// All ranks construct it and call finish() together; write_pieces() waits for nobody. Errors are
// std::runtime_errors that name the file and what to do; the rank must then end, so that the others
// do not wait for it.
class CheckpointWriter {
 public:
  // The first `shard_ranks` ranks hold every state once between them, and only they write pieces
  // (1 for ddp, the group's size for hybrid_shard, all for full_shard).
  CheckpointWriter(RunPaths paths, int64_t step, ProcessGroup& world, int shard_ranks);

  // Where rank 0 writes the files of full weights (see FullWeightsWriter).
  const std::filesystem::path& folder() const { return folder_; }

  // Writes this rank's pieces to <stem>.rank<R>.safetensors, on the disk. Every rank calls it once
  // for each stem, those that hold no pieces too; beyond `shard_ranks` it does nothing.
  void write_pieces(const std::string& stem, const std::vector<Piece>& pieces);

  // Of files that rank 0 wrote by other means; of those that are not told, finish() takes them.
  void add_checksums(std::map<std::string, std::string> checksums);

  // Completes the checkpoint and removes older ones: `keep` of the newest stay, and the one with
  // the lowest validation loss; all of them without it. Fills in the state's step, world size and
  // files. The same result on every rank, but for the time.
  CheckpointDone finish(TrainerState state, std::optional<int64_t> keep);

 private:
  std::string checksum_key(const std::string& name) const;
  // By name, of every rank's files that are told.
  std::map<std::string, std::string> take_checksums() const;
  std::vector<CheckpointFile> list_files() const;
  // Rank 0's part of finish(); returns the size of all files.
  int64_t complete(TrainerState state, std::optional<int64_t> keep) const;

  RunPaths paths_;
  int64_t step_;
  ProcessGroup& world_;
  int shard_ranks_;
  std::filesystem::path folder_;
  std::set<std::string> stems_;
  std::map<std::string, std::string> checksums_;  // by file name
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace fsdp
