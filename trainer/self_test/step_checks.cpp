#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include <cmath>

#include "base/text/numbers.h"
#include "trainer/backend/make_kernels.h"
#include "trainer/plan/gpu_memory.h"
#include "trainer/plan/memory_recording.h"
#include "trainer/self_test/self_test.h"
#include "trainer/step/training_step.h"

namespace fsdp {
namespace {

constexpr int64_t kSteps = 5;
constexpr int64_t kRows = 2;
constexpr int64_t kLength = 256;
constexpr int64_t kShortLength = 100;

constexpr double kSame = 1e-3;     // sums are taken in another order
constexpr double kRounded = 1e-2;  // gradients are rounded more or fewer times

// Products of bf16 take minutes on a CPU without AVX-512.
PrecisionKind precision_of(at::Device device) {
  return device.is_cpu() ? PrecisionKind::kFp32 : PrecisionKind::kBf16True;
}

RunSpec small_run(at::Device device, KernelSet kernels) {
  RunSpec spec;
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

// The rows of a micro-batch, their length, and the number of padding tokens in the last row.
struct Rows {
  int64_t first = 0;
  int64_t count = kRows;
  int64_t length = kLength;
  int64_t padding = 0;
};

// A run, and the micro-batches of each of its steps.
struct Check {
  RunSpec spec;
  std::vector<Rows> micro_batches = {Rows{}};
};

Batch batch_of(const Rows& rows, at::Device device) {
  const auto tokens = at::TensorOptions(at::kLong).device(device);
  Batch batch{.input_ids_BT = at::empty({rows.count, rows.length}, tokens),
              .labels_BT = at::empty({rows.count, rows.length}, tokens)};
  if (device.is_meta()) return batch;
  const at::Tensor numbers = at::arange(kRows * (kLength + 1), at::kLong)
                                 .mul_(7919)
                                 .remainder_(64)
                                 .view({kRows, kLength + 1})
                                 .narrow(0, rows.first, rows.count);
  const at::Tensor labels_BT = numbers.narrow(1, 1, rows.length).clone();
  labels_BT.narrow(0, rows.count - 1, 1)
      .narrow(1, rows.length - rows.padding, rows.padding)
      .fill_(kNoLabel);
  batch.input_ids_BT.copy_(numbers.narrow(1, 0, rows.length));
  batch.labels_BT.copy_(labels_BT);
  return batch;
}

// Makes the batches, which are the same on every rank.
std::vector<Batch> batches_of(const std::vector<Rows>& micro_batches, at::Device device,
                              int ranks) {
  std::vector<Batch> batches;
  int64_t labels = 0;
  for (const Rows& rows : micro_batches) {
    batches.push_back(batch_of(rows, device));
    labels += rows.count * rows.length - rows.padding;
  }
  for (Batch& batch : batches) batch.loss_scale = 1.0 / static_cast<double>(labels * ranks);
  return batches;
}

struct Outcome {
  double first_loss = 0;
  double loss = 0;  // of an evaluation after the last step
  int64_t allocated_bytes_max = 0;
  int64_t reserved_bytes_max = 0;
};

Outcome train(const Check& check, Backend& backend, ProcessGroup& world) {
  if (backend.device().is_cuda()) at::accelerator::emptyCache();
  const Mesh mesh(check.spec.strategy, world);
  TrainingStep step(check.spec, check.spec.model.config, backend, mesh, world, fill_with_sine);
  std::vector<Batch> batches = batches_of(check.micro_batches, backend.device(), world.size());
  Outcome outcome;
  backend.memory().reset_peaks();
  for (int64_t i = 1; i <= kSteps; ++i) {
    const double loss = backend.read(step.run(i, batches, 3e-5, 0.0, [] {}).loss);
    if (i == 1) outcome.first_loss = loss;
  }
  for (const Batch& batch : batches) {
    outcome.loss += world.size() * backend.read(step.evaluate(batch)[0]);
  }
  outcome.allocated_bytes_max = backend.memory().allocated_bytes_max();
  outcome.reserved_bytes_max = backend.memory().reserved_bytes_max();
  return outcome;
}

// Plans the same steps without the device.
Outcome plan(const Check& check, at::Device device) {
  const ComputeCapability capability = capability_of(device);
  const int64_t capability_number = 10 * capability.major + capability.minor;
  const auto backend =
      make_meta_backend(device.type(), check.spec.kernels, /*streams=*/nullptr, capability_number);
  const auto alone = make_process_group({}, at::kCPU);
  const MemoryRecording recording(device.type());
  Outcome planned = train(check, *backend, *alone);
  if (device.is_cuda()) {
    const PlannedDevice gpu{.kind = DeviceKind::kCuda, .compute_capability = capability_number};
    const GpuMemory memory = replay_on_gpu(recording, check.spec, gpu, std::nullopt);
    planned.allocated_bytes_max = memory.allocated_bytes_max;
    planned.reserved_bytes_max = memory.reserved_bytes_max;
  }
  return planned;
}

// Runs checks in `world` and shows their rows.
class StepChecks {
 public:
  StepChecks(at::Device device, KernelSet kernels, ProcessGroup& world, const ShowRow& show)
      : backend_(make_backend(device, kernels)), world_(world), show_(show) {}

  // Runs a check whose loss must fall.
  Outcome learn(const std::string& name, const Check& check) {
    const Outcome outcome = train(check, *backend_, world_);
    show_({name,
           "loss " + with_decimals(outcome.first_loss, 4) + " to " + with_decimals(outcome.loss, 4),
           "less", outcome.loss < outcome.first_loss});
    return outcome;
  }

  // Runs a check that must end with the same loss as `other`.
  Outcome compare(const std::string& name, const Check& check, const Outcome& other,
                  double tolerance) {
    const Outcome outcome = train(check, *backend_, world_);
    const double difference = std::abs(outcome.loss / other.loss - 1);
    show_(
        {name,
         "loss " + with_decimals(outcome.loss, 4) + ", differs by " + with_exponent(difference, 0),
         "at most " + with_exponent(tolerance, 0), difference <= tolerance});
    return outcome;
  }

  // Compares memory with the plan. A GPU's libraries may use more while an operator runs.
  void compare_memory(const std::string& name, const Check& check, const Outcome& measured) {
    constexpr double kTolerance = 0.01;
    const at::Device device = backend_->device();
    const Outcome planned = plan(check, device);
    const auto show = [&](const std::string& kind, int64_t found, int64_t expected) {
      const double tolerance = device.is_cuda() ? kTolerance * static_cast<double>(expected) : 0;
      show_({name + ", " + kind, std::to_string(found) + " bytes", std::to_string(expected),
             std::abs(static_cast<double>(found - expected)) <= tolerance});
    };
    show("allocated", measured.allocated_bytes_max, planned.allocated_bytes_max);
    if (device.is_cuda()) show("reserved", measured.reserved_bytes_max, planned.reserved_bytes_max);
  }

 private:
  std::unique_ptr<Backend> backend_;
  ProcessGroup& world_;
  const ShowRow& show_;
};

}  // namespace

void fill_with_sine(const Parameter& parameter, int64_t offset, const at::Tensor& out) {
  if (parameter.initialization() == Initialization::kOnes) {
    out.fill_(1);
  } else {
    out.copy_(at::arange(offset, offset + out.numel(), at::kDouble).sin_().mul_(0.03));
  }
}

void check_steps(at::Device device, KernelSet kernels, const ShowRow& show) {
  ProcessGroupOptions options;
  options.nccl_for_single_rank = true;
  WorldEnvironment world_of_one;
  world_of_one.master_port = 0;
  const auto world = make_process_group(world_of_one, device, options);
  StepChecks checks(device, kernels, *world, show);
  const auto changed = [&](const std::function<void(RunSpec&)>& change,
                           const std::vector<Rows>& micro_batches = {Rows{}}) {
    Check check{small_run(device, kernels), micro_batches};
    change(check.spec);
    return check;
  };
  const auto as_it_is = [](RunSpec&) {};
  const Check plain = changed(as_it_is);
  const Outcome expected = checks.learn("single", plain);
  checks.compare_memory("memory", plain, expected);
  checks.compare("activations recomputed",
                 changed([](RunSpec& spec) { spec.activation_checkpointing.every = 1; }), expected,
                 kSame);
  checks.compare("optimizer offloaded",
                 changed([](RunSpec& spec) { spec.strategy.offload = Offload::kOptimizer; }),
                 expected, kSame);
  checks.compare("parameters offloaded",
                 changed([](RunSpec& spec) { spec.strategy.offload = Offload::kParameters; }),
                 expected, kSame);
  checks.compare("fsdp with one rank",
                 changed([](RunSpec& spec) { spec.strategy.kind = StrategyKind::kFsdp; }), expected,
                 kSame);
  checks.compare("accumulation of two",
                 changed(as_it_is, {{.first = 0, .count = 1}, {.first = 1, .count = 1}}), expected,
                 kRounded);
  const int64_t padding = kLength - kShortLength;
  const Outcome padded = checks.learn("a padded row", changed(as_it_is, {{.padding = padding}}));
  checks.compare("rows of two lengths",
                 changed(as_it_is, {{.first = 0, .count = 1},
                                    {.first = 1, .count = 1, .length = kShortLength}}),
                 padded, kRounded);
  if (!device.is_cuda()) return;  // products of 16 bits take minutes on some CPUs
  const auto in_precision = [](PrecisionKind kind, Offload offload) {
    return [=](RunSpec& spec) {
      spec.precision.kind = kind;
      spec.strategy.offload = offload;
    };
  };
  const Outcome mixed =
      checks.compare("bf16_mixed", changed(in_precision(PrecisionKind::kBf16Mixed, Offload::kNone)),
                     expected, kRounded);
  checks.compare("fp16_mixed", changed(in_precision(PrecisionKind::kFp16Mixed, Offload::kNone)),
                 expected, kRounded);
  const Check converted = changed(in_precision(PrecisionKind::kBf16Mixed, Offload::kParameters));
  const Outcome offloaded =
      checks.compare("bf16_mixed, parameters offloaded", converted, mixed, kSame);
  checks.compare_memory("memory of it", converted, offloaded);
}

void check_ranks(const WorldEnvironment& world, at::Device device, const ShowRow& show) {
  ProcessGroupOptions options;
  options.operation_timeout = std::chrono::minutes(1);
  const auto group = make_process_group(world, device, options);
  const at::Tensor sum =
      at::full({1000}, group->rank() + 1, at::TensorOptions(device).dtype(at::kFloat));
  group->all_reduce(sum).wait();
  const int expected_sum = group->size() * (group->size() + 1) / 2;
  const int64_t wrong = sum.ne(expected_sum).sum().item<int64_t>();
  show({"sum of " + std::to_string(group->size()) + " ranks",
        std::to_string(wrong) + " of 1000 elements wrong", "0", wrong == 0});

  const auto alone = make_process_group({}, at::kCPU);
  const Check plain{small_run(device, KernelSet::kAuto)};
  const Outcome expected =
      StepChecks(device, KernelSet::kAuto, *alone, show).learn("single, of each rank", plain);
  StepChecks together(device, KernelSet::kAuto, *group, show);
  for (const StrategyKind kind : {StrategyKind::kDdp, StrategyKind::kFsdp}) {
    Check check = plain;
    check.spec.strategy.kind = kind;
    check.spec.strategy.ranks = group->size();
    together.compare(std::string(name_of(kind)) + ", of all", check, expected, kRounded);
  }
  measure_exchange(*group, device, show);
  group->barrier();
}

}  // namespace fsdp
