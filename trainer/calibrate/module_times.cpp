// Times each module of a step with few blocks, because all blocks of a kind take the same time.
#include <ATen/ATen.h>

#include <set>

#include "trainer/calibrate/pieces.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/data/full_batch.h"
#include "trainer/step/training_step.h"

namespace fsdp {
namespace {

// Returns the specification of the timed step: one rank, no clipping. If the run recomputes blocks,
// only the first of the kDepth blocks is recomputed, so both kinds of blocks are timed.
RunSpec step_of_few_blocks(const RunSpec& spec) {
  RunSpec few = spec;
  few.strategy = StrategySpec();
  few.optimizer.gradient_clip_norm.reset();
  if (few.activation_checkpointing.every > 0) few.activation_checkpointing.every = kDepth;
  return few;
}

void fill_at_random(const Parameter& parameter, int64_t, const at::Tensor& out) {
  if (parameter.is_quantized()) {
    out.random_(0x3a, 0x3c);  // four of these bytes are a scale in fp32, about 0.001
  } else if (parameter.role() == ParameterRole::kNorm) {
    out.fill_(1);
  } else {
    out.normal_(0, 0.02);
  }
}

// Returns the data with full rows and, if rows may differ in length, with rows of half the length.
std::vector<DataSpec> lengths_of(const RunSpec& spec) {
  std::vector<DataSpec> lengths{spec.data};
  if (spec.data.rows == RowFill::kPadToLongest) {
    DataSpec half = spec.data;
    half.sequence_length = std::max<int64_t>(1, half.sequence_length / 2);
    half.input_length = std::max<int64_t>(1, half.input_length / 2);
    half.target_length = std::max<int64_t>(1, half.target_length / 2);
    lengths.push_back(half);
  }
  return lengths;
}

std::set<int64_t> row_counts(int64_t most) {
  return {1, std::min<int64_t>(2, most), (most + 1) / 2, most};
}

}  // namespace

std::vector<WorkTime> module_times(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                                   ProcessGroup& world) {
  TimedWork timed(backend.device(), world);
  const RunSpec few = step_of_few_blocks(spec);
  MirrorGroup alone(1);
  const Mesh mesh(few.strategy, alone);
  TrainingStep training(few, few_blocks(config), backend, mesh, alone, fill_at_random);
  int64_t number = 0;
  for (const DataSpec& data : lengths_of(few)) {
    for (const int64_t rows : row_counts(few.batch.size_per_rank)) {
      const Batch batch = full_batch(data, config, rows, backend.device());
      const auto step = [&] {
        std::vector<Batch> micro_batches{batch};
        training.run(++number, micro_batches, 0.0, 0.0, [] {});
      };
      timed.repeat(step, kRestOfStep);
    }
  }
  std::vector<WorkTime> times = timed.times();
  if (spec.strategy.offload != Offload::kNone) {  // it runs on the host; tensor_times times it
    std::erase_if(times, [](const WorkTime& time) { return time.work == kOptimizerWork; });
  }
  return times;
}

}  // namespace fsdp
