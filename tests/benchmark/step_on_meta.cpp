// Measures a training step without a device: a LLaMA of 7 billion parameters on meta tensors, with
// several strategies. Times are medians of 20 steps. Run by hand:
//
//     cmake --build build/release --target step_on_meta && build/release/step_on_meta
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "trainer/comm/mirror_group.h"
#include "trainer/step/training_step.h"

namespace fsdp {
namespace {

using Clock = std::chrono::steady_clock;

RunSpec seven_billion(StrategyKind kind, PrecisionKind precision) {
  RunSpec spec;
  spec.strategy.kind = kind;
  spec.strategy.ranks = kind == StrategyKind::kSingle ? 1 : 8;
  spec.precision.kind = precision;
  spec.optimizer.gradient_clip_norm = 1.0;
  spec.model.config = {.num_hidden_layers = 32,
                       .hidden_size = 4096,
                       .intermediate_size = 11008,
                       .num_attention_heads = 32,
                       .num_key_value_heads = 32,
                       .vocab_size = 32000,
                       .max_position_embeddings = 2048};
  return spec;
}

struct Figures {
  double step_time_ms;
  int64_t memory_allocated_bytes_max;
};

Figures measure(const RunSpec& spec) {
  const auto backend = make_meta_backend(at::kCUDA);
  MirrorGroup world(static_cast<int>(spec.strategy.ranks));
  const Mesh mesh(spec.strategy, world);
  TrainingStep step(spec, spec.model.config, *backend, mesh, world, {});
  const auto tokens = at::TensorOptions(at::kLong).device(at::kMeta);
  std::vector<Batch> batches = {
      {.input_ids_BT = at::zeros({4, 2048}, tokens), .labels_BT = at::zeros({4, 2048}, tokens)}};
  backend->memory().reset_peaks();
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) {
    const auto start = Clock::now();
    step.run(i + 1, batches, 1e-4, 0.0, [] {});
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return {times[10], backend->memory().allocated_bytes_max()};
}

}  // namespace
}  // namespace fsdp

int main() {
  using namespace fsdp;
  for (const StrategyKind kind : {StrategyKind::kSingle, StrategyKind::kDdp, StrategyKind::kFsdp}) {
    for (const PrecisionKind precision : {PrecisionKind::kBf16True, PrecisionKind::kBf16Mixed}) {
      const Figures figures = measure(seven_billion(kind, precision));
      std::printf("%-6s %-10s %6.1f ms, peak %6.2f GiB\n", std::string(name_of(kind)).c_str(),
                  std::string(name_of(precision)).c_str(), figures.step_time_ms,
                  static_cast<double>(figures.memory_allocated_bytes_max) / (1 << 30));
    }
  }
}
