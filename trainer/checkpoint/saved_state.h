#pragma once

#include <vector>

#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/step/training_step.h"

// The contents of a run's checkpoint. Only sizes are needed of `training`, so it may be on meta.
namespace fsdp {

// Return the pieces that the rank `shard_index` of a shard group saves. The values are this rank's.
std::vector<Piece> optimizer_pieces(TrainingStep& training, int64_t shard_index);
std::vector<Piece> weight_pieces(TrainingStep& training, int64_t shard_index);

// Return the model's trained or frozen parameters, in its order. A merged model consists of the
// frozen ones.
std::vector<ParameterPtr> saved_parameters(const TrainingStep& training);
std::vector<ParameterPtr> frozen_parameters(const TrainingStep& training);

// Returns the size of a checkpoint's files on the disk. The real size may differ by up to 1 kB,
// because trainer.json has figures that only a run knows.
int64_t checkpoint_bytes(const RunSpec& spec, TrainingStep& training, const Mesh& mesh);

}  // namespace fsdp
