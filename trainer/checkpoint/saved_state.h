#pragma once

#include <vector>

#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/step/training_step.h"

// The contents of a run's checkpoint. If only sizes are needed, `training` may be on meta.
namespace fsdp {

// Return the pieces that rank `shard_index` of a shard group saves. The values are this rank's, so
// for another rank only the names and sizes are right.
std::vector<Piece> optimizer_pieces(TrainingStep& training, int64_t shard_index);
std::vector<Piece> weight_pieces(TrainingStep& training, int64_t shard_index);

// Return the model's trained parameters, which a checkpoint holds, and its frozen parameters, which
// a merged model holds. Both are in the model's order.
std::vector<ParameterPtr> saved_parameters(const TrainingStep& training);
std::vector<ParameterPtr> frozen_parameters(const TrainingStep& training);

// Returns the size of a checkpoint's files on the disk. The real size may differ by up to 1 kB,
// because trainer.json has figures that only a run knows.
int64_t checkpoint_bytes(const RunSpec& spec, TrainingStep& training, const Mesh& mesh);

}  // namespace fsdp
