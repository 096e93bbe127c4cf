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

// Describes the data that a run reads from a training set of `rows` rows. The digest is empty
// unless the run writes or reads checkpoints. Every rank calls it.
DataOrder data_order(const RunSpec& spec, int64_t rows, SharedDigests& digests);

// Opens the checkpoint that `spec.resume` names. `auto` takes the newest undamaged one; the ranks
// share the reading of all its bytes. Every rank calls it. Rank 0 removes what an earlier writer
// left unfinished.
// Throws ConfigError if the checkpoint is damaged (with `auto`, if all are) or does not fit the
// run. Throws it too if the run that wrote the checkpoint read other sequences than `data`.
Resumed open_resumed_checkpoint(const RunSpec& spec, const RunPaths& paths, const DataOrder& data,
                                ProcessGroup& world);

}  // namespace fsdp
