#include <ATen/ATen.h>
#ifdef FSDP_CUDA
#include <ATen/cuda/CUDAContextLight.h>
#endif

#include "contract/text/numbers.h"
#include "trainer/self_test/self_test.h"
#include "trainer/step/training_step.h"

namespace fsdp {
namespace {

constexpr int64_t kSteps = 5;

// Products of bf16 take minutes on a CPU without AVX-512.
PrecisionKind precision_of(at::Device device) {
  return device.is_cpu() ? PrecisionKind::kFp32 : PrecisionKind::kBf16True;
}

RunSpec small_run(StrategyKind kind, Offload offload, at::Device device, KernelSet kernels) {
  RunSpec spec;
  spec.strategy.kind = kind;
  spec.strategy.offload = offload;
  spec.precision.kind = precision_of(device);
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

// What a plan leaves out: on a GPU cuBLAS's workspaces, of libtorch's sizes, and what the caching
// allocator rounds up: up to 1 MiB for each block that it does not split, of which this model has
// some thirty (six units of weights, gradients and two moments, and activations).
int64_t unplanned_bytes_max([[maybe_unused]] at::Device device) {
#ifdef FSDP_CUDA
  if (device.is_cuda()) {
    constexpr int64_t kRounding = 32 << 20;
    return static_cast<int64_t>(at::cuda::getChosenWorkspaceSize() +
                                at::cuda::getCUDABlasLtWorkspaceSize()) +
           kRounding;
  }
#endif
  return 0;
}

}  // namespace

void check_steps(at::Device device, KernelSet kernels, const ShowRow& show) {
  const auto backend = make_backend(device, kernels);
  ProcessGroupOptions options;
  options.nccl_for_single_rank = true;
  WorldEnvironment world_of_one;
  world_of_one.master_port = 0;
  const auto world = make_process_group(world_of_one, device, options);

  const auto run_of = [&](StrategyKind kind, Offload offload) {
    return small_run(kind, offload, device, kernels);
  };
  const RunSpec single = run_of(StrategyKind::kSingle, Offload::kNone);
  RunSpec recomputed = single;
  recomputed.activation_checkpointing.every = 1;
  const Outcome expected = train(single, *backend, *world);
  show({"step, single",
        "loss " + with_decimals(expected.first_loss, 4) + " to " +
            with_decimals(expected.last_loss, 4),
        expected.last_loss < expected.first_loss});
  const std::vector<std::pair<std::string, RunSpec>> others = {
      {"step, activations recomputed", recomputed},
      {"step, optimizer offloaded", run_of(StrategyKind::kSingle, Offload::kOptimizer)},
      {"step, parameters offloaded", run_of(StrategyKind::kSingle, Offload::kParameters)},
      {"step, fsdp with one rank", run_of(StrategyKind::kFsdp, Offload::kNone)},
  };
  for (const auto& [name, spec] : others) {
    const Outcome outcome = train(spec, *backend, *world);
    const double difference = std::abs(outcome.evaluation_loss / expected.evaluation_loss - 1);
    show({name,
          "loss " + with_decimals(outcome.evaluation_loss, 4) + ", differs by " +
              with_exponent(difference, 0),
          difference < 1e-3});
  }
  const auto plan = make_meta_backend(device.type(), kernels);
  const auto alone = make_process_group({}, at::kCPU);
  const int64_t planned_bytes = train(single, *plan, *alone).peak_bytes;
  const int64_t more_bytes = expected.peak_bytes - planned_bytes;
  const int64_t most_bytes = unplanned_bytes_max(device);
  show({"step, memory against the plan",
        with_decimals(static_cast<double>(expected.peak_bytes) / (1 << 20), 1) + " MiB, " +
            std::to_string(more_bytes) + " bytes more of " + std::to_string(most_bytes),
        more_bytes >= 0 && more_bytes <= most_bytes});
}

}  // namespace fsdp
