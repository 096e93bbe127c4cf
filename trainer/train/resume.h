#pragma once

#include <memory>
#include <string>

#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/comm/process_group.h"
#include "trainer/train/shared_digests.h"

namespace fsdp {

// The checkpoint that a run resumes from, the same on every rank.
struct Resumed {
  std::unique_ptr<CheckpointReader> reader;  // null: the run begins anew
  std::string warning;  // about newer, damaged checkpoints that were passed over; else empty
};

// True if the run begins from a checkpoint, if there is one.
inline bool reads_checkpoint(const RunSpec& spec) {
  return spec.resume.is_given() && !spec.resume.is_never;
}

// True if the run writes or reads checkpoints.
inline bool uses_checkpoints(const RunSpec& spec) {
  return wants_checkpoints(spec) || reads_checkpoint(spec);
}

// Returns the basis of the run's checkpoints, without frozen weights. `device` is the one that
// trains. The digest is empty unless the run writes or reads checkpoints. Every rank calls it.
Basis begin_basis(const RunSpec& spec, const ModelConfig& config, at::Device device, int64_t steps,
                  SharedDigests& digests);

// Returns the newest checkpoint of the run that is undamaged, without a reader if there is none.
// The ranks share the reading of all its bytes. Every rank calls it. Throws ConfigError if all are
// damaged.
Resumed newest_whole_checkpoint(const RunPaths& paths, ProcessGroup& world);

// Opens the checkpoint that `spec.resume` names; `auto` means newest_whole_checkpoint(). Every rank
// calls it. Rank 0 removes the unfinished files of earlier writers. Throws ConfigError if the
// checkpoint is damaged (with `auto`, if all are), or does not fit the run. Throws it too if a run
// with another basis wrote the checkpoint.
Resumed open_resumed_checkpoint(const RunSpec& spec, const RunPaths& paths,
                                const ModelConfig& config, const Basis& basis, ProcessGroup& world);

// Throws ConfigError if the checkpoint was written by a run with another basis.
void require_basis(const CheckpointReader& reader, const Basis& basis);

}  // namespace fsdp
