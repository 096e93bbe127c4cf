#include <ATen/ATen.h>

#include <cstdio>

#include "trainer/self_test/self_test.h"
#include "trainer/step/training_step.h"

namespace fsdp {
namespace {

constexpr int64_t kSteps = 5;

RunSpec small_run(StrategyKind kind, Offload offload, KernelSet kernels) {
  RunSpec spec;
  spec.strategy.kind = kind;
  spec.strategy.offload = offload;
  spec.precision.kind = PrecisionKind::kBf16True;
  spec.optimizer.gradient_clip_norm = 1.0;
  spec.batch.gradient_accumulation_steps = 1;
  spec.kernels = kernels;
  spec.model.config = {.num_hidden_layers = 4,
                       .hidden_size = 512,
                       .intermediate_size = 1376,
                       .num_attention_heads = 8,
                       .num_key_value_heads = 4,
                       .vocab_size = 4096,
                       .max_position_embeddings = 256};
  return spec;
}

void fill(const Parameter& parameter, int64_t offset, const at::Tensor& out) {
  if (parameter.initialization() == Initialization::kOnes) {
    out.fill_(1);
  } else {
    out.copy_(at::arange(offset, offset + out.numel(), at::kDouble).sin_().mul_(0.03));
  }
}

struct Outcome {
  double first_loss = 0;
  double last_loss = 0;
  double evaluation_loss = 0;  // after the last step
  int64_t peak_bytes = 0;
};

Batch some_batch(at::Device device) {
  const auto tokens = at::TensorOptions(at::kLong).device(device);
  Batch batch{.input_ids_BT = at::empty({2, 256}, tokens),
              .labels_BT = at::empty({2, 256}, tokens)};
  batch.loss_scale = 1.0 / 512;
  if (device.is_meta()) return batch;
  const at::Tensor numbers =
      at::arange(2 * 257, at::kLong).mul_(7919).remainder_(64).view({2, 257});
  batch.input_ids_BT.copy_(numbers.narrow(1, 0, 256));
  batch.labels_BT.copy_(numbers.narrow(1, 1, 256));
  return batch;
}

Outcome train(const RunSpec& spec, Backend& backend, ProcessGroup& world) {
  const Mesh mesh(spec.strategy, world);
  TrainingStep step(spec, spec.model.config, backend, mesh, world, fill);
  std::vector<Batch> batches = {some_batch(backend.device())};
  Outcome outcome;
  backend.memory().reset_peaks();
  for (int64_t i = 1; i <= kSteps; ++i) {
    const TrainingStep::Result result = step.run(i, batches, 3e-4, 0.0, [] {});
    outcome.last_loss = backend.read(result.loss);
    if (i == 1) outcome.first_loss = outcome.last_loss;
  }
  outcome.evaluation_loss = backend.read(step.evaluate(batches[0])[0]);
  outcome.peak_bytes = backend.memory().allocated_bytes_max();
  return outcome;
}

template <typename... Arguments>
std::string text_of(const char* format, Arguments... arguments) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), format, arguments...);
  return text.data();
}

// On a GPU cuBLAS takes workspaces, and the caching allocator rounds.
bool is_as_planned(int64_t bytes, int64_t planned_bytes, at::Device device) {
  if (!device.is_cuda()) return bytes == planned_bytes;
  constexpr int64_t kWorkspaces = 128 << 20;
  return bytes >= planned_bytes && bytes <= planned_bytes + planned_bytes / 20 + kWorkspaces;
}

}  // namespace

void check_steps(at::Device device, KernelSet kernels, const ShowRow& show) {
  const auto backend = make_backend(device, kernels);
  ProcessGroupOptions options;
  options.nccl_for_single_rank = true;
  WorldEnvironment world_of_one;
  world_of_one.master_port = 0;
  const auto world = make_process_group(world_of_one, device, options);

  const RunSpec single = small_run(StrategyKind::kSingle, Offload::kNone, kernels);
  RunSpec recomputed = single;
  recomputed.activation_checkpointing.every = 1;
  const Outcome expected = train(single, *backend, *world);
  show({"step, single", text_of("loss %.4f to %.4f", expected.first_loss, expected.last_loss),
        expected.last_loss < expected.first_loss});
  const std::vector<std::pair<std::string, RunSpec>> others = {
      {"step, activations recomputed", recomputed},
      {"step, optimizer offloaded", small_run(StrategyKind::kSingle, Offload::kOptimizer, kernels)},
      {"step, parameters offloaded",
       small_run(StrategyKind::kSingle, Offload::kParameters, kernels)},
      {"step, fsdp with one rank", small_run(StrategyKind::kFsdp, Offload::kNone, kernels)},
  };
  for (const auto& [name, spec] : others) {
    const Outcome outcome = train(spec, *backend, *world);
    const double difference = std::abs(outcome.evaluation_loss / expected.evaluation_loss - 1);
    show({name, text_of("loss %.4f, differs by %.0e", outcome.evaluation_loss, difference),
          difference < 1e-3});
  }
  const auto plan = make_meta_backend(device.type(), kernels);
  const auto alone = make_process_group({}, at::kCPU);
  const int64_t planned_bytes = train(single, *plan, *alone).peak_bytes;
  const int64_t bytes = expected.peak_bytes;
  show({"step, memory against the plan",
        text_of("%.1f MiB, %+lld bytes", static_cast<double>(bytes) / (1 << 20),
                static_cast<long long>(bytes - planned_bytes)),
        is_as_planned(bytes, planned_bytes, device)});
}

}  // namespace fsdp
