#pragma once

#include <memory>
#include <string>

#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/comm/process_group.h"
#include "trainer/train/shared_digests.h"

namespace fsdp {

// What a run goes on from, the same on every rank.
struct Resumed {
  std::unique_ptr<CheckpointReader> reader;  // null: the run begins anew
  std::string warning;  // of newer checkpoints that are damaged and were passed over; else empty
};

// What a run whose training set has `rows` rows reads; without a digest where no checkpoint is
// written or read. Every rank calls it.
DataOrder data_order(const RunSpec& spec, int64_t rows, SharedDigests& digests);

// The checkpoint that `spec.resume` names. `auto` takes the newest one that is as it was written,
// of which the ranks read every byte together, each its part. Every rank calls it; rank 0 removes
// what an earlier writer left unfinished.
// Throws ConfigError when the checkpoint is damaged, with `auto` when all are, and when it does not
// fit the run, or was written by one that reads other sequences than `data`.
Resumed open_resumed_checkpoint(const RunSpec& spec, const RunPaths& paths, const DataOrder& data,
                                ProcessGroup& world);

}  // namespace fsdp
