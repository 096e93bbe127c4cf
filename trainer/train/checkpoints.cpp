// Writes a run's checkpoints while it trains on, and loads the optimizer's state from one.
#include "trainer/train/checkpoints.h"

#include <memory>

#include "base/system/start_up.h"
#include "trainer/checkpoint/full_weights_writer.h"
#include "trainer/checkpoint/saved_state.h"
#include "trainer/strategy/whole_units.h"
#include "trainer/train/merged_model.h"

namespace fsdp {

Checkpoints::Checkpoints(const RunSpec& spec, const RunPaths& paths, TrainingStep& training,
                         const Mesh& mesh, ProcessGroup& world, const Backend& backend)
    : spec_(spec),
      paths_(paths),
      training_(training),
      store_(training.store()),
      optimizer_(training.optimizer()),
      mesh_(mesh),
      world_(world),
      backend_(backend) {}

bool Checkpoints::is_due(int64_t step, int64_t steps) const {
  const CheckpointSpec& spec = spec_.checkpoint;
  return (spec.every_steps && step % *spec.every_steps == 0) || (spec.at_end && step == steps);
}

void Checkpoints::save(TrainerState state) {
  const MemoryScope scope(MemoryPhase::kCheckpoint);
  CheckpointWriter& writer =
      writer_.emplace(paths_, state.step, world_, mesh_.shard_count(), backend_, buffers_);
  writer.write_pieces(kOptimizer, optimizer_pieces(training_, mesh_.shard_index()));
  switch (spec_.checkpoint.state_dict) {
    case StateDict::kSharded:
      writer.write_pieces(kWeights, weight_pieces(training_, mesh_.shard_index()));
      break;
    case StateDict::kFull:
      if (mesh_.is_first_replica()) write_full_weights(writer);
      break;
  }
  state.sequences = state.step * total_batch(spec_);
  state.state_dict = spec_.checkpoint.state_dict;
  state.optimizer = spec_.optimizer.kind;
  state.optimizer_steps = static_cast<int64_t>(optimizer_.steps());
  if (const auto& scaler = training_.scaler()) {
    state.gradient_scaler = {.scale = scaler->state().scale,
                             .steps_since_growth = scaler->state().steps_since_growth};
  }
  writer.finish_later(std::move(state), spec_.checkpoint.keep);
}

std::optional<CheckpointDone> Checkpoints::advance(bool waits) {
  if (!writer_ || !writer_->advance(waits)) return std::nullopt;
  std::optional<CheckpointDone> done;
  if (world_.rank() == 0) done = writer_->done();
  writer_.reset();
  return done;
}

// Gathers one unit at a time. Only rank 0 writes.
void Checkpoints::write_full_weights(CheckpointWriter& checkpoint) {
  std::shared_ptr<FullWeightsWriter> writer;
  if (world_.rank() == 0) {
    const at::ScalarType dtype = store_.options().dtype;
    writer =
        std::make_shared<FullWeightsWriter>(checkpoint.folder(), saved_parameters(training_), dtype,
                                            model_files(spec_, training_.config(), dtype));
    checkpoint.add_files([writer] { return writer->finish(); });
    if (spec_.checkpoint.merge) {
      checkpoint.add_files([this, &checkpoint] {
        return write_merged_model(spec_, training_, checkpoint.folder(), checkpoint.thread());
      });
    }
  }
  for_each_whole_unit(store_, mesh_, [&](const FlatLayout& layout, const at::Tensor& whole) {
    if (!writer) return;
    layout.for_each(whole, [&](const Parameter& parameter, const at::Tensor& value) {
      writer->write(parameter, value, checkpoint.thread());
    });
  });
}

void Checkpoints::load(const CheckpointReader& reader) {
  for (int unit = 0; unit < store_.unit_count(); ++unit) {
    begin_start_up_part("loading the optimizer's state of unit " + std::to_string(unit));
    optimizer_.for_each_state(
        unit, store_.layout(unit), mesh_.shard_index(),
        [&](const std::string& state, const Parameter& parameter, int64_t offset,
            const at::Tensor& part) { reader.read(state, parameter, offset, part); });
  }
  optimizer_.set_steps(static_cast<double>(reader.state().optimizer_steps));
  if (auto& scaler = training_.scaler()) {
    scaler->set_state({.scale = reader.state().gradient_scaler->scale,
                       .steps_since_growth = reader.state().gradient_scaler->steps_since_growth});
  }
}

}  // namespace fsdp
