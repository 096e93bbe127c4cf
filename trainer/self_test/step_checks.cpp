// Checks whole steps: losses against a plain step, memory against its plan.
#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include <cmath>
#include <cstdlib>

#include "base/text/config_error.h"
#include "base/text/numbers.h"
#include "trainer/backend/make_kernels.h"
#include "trainer/plan/gpu_memory.h"
#include "trainer/plan/memory_recording.h"
#include "trainer/self_test/self_test.h"
#include "trainer/step/training_step.h"
#include "trainer/train/determinism.h"
#include "trainer/train/weights.h"

namespace fsdp {
namespace {

constexpr int64_t kSteps = 5;
constexpr int64_t kRows = 2;
constexpr int64_t kLength = 256;
constexpr int64_t kShortLength = 100;

constexpr double kSame = 1e-3;     // sums are taken in another order
constexpr double kRounded = 1e-2;  // gradients are rounded more or fewer times
constexpr double kNorm = 2e-2;     // a norm's square sums what was rounded

constexpr const char* kCublasWorkspaces = "CUBLAS_WORKSPACE_CONFIG";

// Products of bf16 take minutes on a CPU without AVX-512.
PrecisionKind precision_of(at::Device device) {
  return device.is_cpu() ? PrecisionKind::kFp32 : PrecisionKind::kBf16True;
}

RunSpec small_run(at::Device device, KernelSet kernels) {
  RunSpec spec;
  spec.precision.kind = precision_of(device);
  // To the nearest, bf16 would lose most steps of this learning rate.
  if (spec.precision.kind == PrecisionKind::kBf16True) {
    spec.optimizer.rounding = Rounding::kStochastic;
  }
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

// A run, the micro-batches of each of its steps, and its learning rate.
struct Check {
  RunSpec spec;
  std::vector<Rows> micro_batches = {Rows{}};
  double learning_rate = 3e-5;
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
  double gradient_norm = 0;
  int64_t sum_of_bits = 0;  // of the trained parameters
  int64_t allocated_bytes_max = 0;
  int64_t reserved_bytes_max = 0;
};

int64_t sum_of_bits(const std::vector<at::Tensor>& parameters) {
  int64_t sum = 0;
  for (const at::Tensor& part : parameters) {
    const at::Tensor bits = part.view(part.element_size() == 2 ? at::kShort : at::kInt);
    sum += bits.sum(at::kLong).item<int64_t>();
  }
  return sum;
}

Outcome train(const Check& check, Backend& backend, ProcessGroup& world) {
  if (backend.device().is_cuda()) at::accelerator::emptyCache();
  const Mesh mesh(check.spec.strategy, world);
  TrainingStep step(check.spec, check.spec.model.config, backend, mesh, world,
                    make_weight_source(check.spec));
  std::vector<Batch> batches = batches_of(check.micro_batches, backend.device(), world.size());
  Outcome outcome;
  backend.memory().reset_peaks();
  for (int64_t i = 1; i <= kSteps; ++i) {
    const TrainingStep::Result result = step.run(i, batches, check.learning_rate, 0.0, [] {});
    if (i == 1) outcome.first_loss = backend.read(result.loss);
    outcome.gradient_norm = backend.read(result.gradient_norm);
  }
  for (const Batch& batch : batches) {
    outcome.loss += world.size() * backend.read(step.evaluate(batch)[0]);
  }
  outcome.allocated_bytes_max = backend.memory().allocated_bytes_max();
  outcome.reserved_bytes_max = backend.memory().reserved_bytes_max();
  if (!backend.device().is_meta()) {
    outcome.sum_of_bits = sum_of_bits(step.store().optimizer_parameters());
  }
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

  // Runs a check that must do the same as on the CPU in fp32. Its loss must fall.
  void compare_with_cpu(const std::string& name, const Check& check) {
    try {
      const Outcome found = train(check, *backend_, world_);
      Check in_fp32 = check;
      in_fp32.spec.precision.kind = PrecisionKind::kFp32;
      in_fp32.spec.optimizer.rounding = Rounding::kNearest;
      in_fp32.spec.kernels = KernelSet::kAten;
      const auto alone = make_process_group({}, at::kCPU);
      const Outcome expected = train(in_fp32, *make_backend(at::kCPU, KernelSet::kAten), *alone);
      const double of_loss = std::abs(found.loss / expected.loss - 1);
      const double of_norm = std::abs(found.gradient_norm / expected.gradient_norm - 1);
      show_({name,
             "loss " + with_decimals(found.first_loss, 4) + " to " + with_decimals(found.loss, 4) +
                 ", differs by " + with_exponent(of_loss, 0) + ", gradients' norm by " +
                 with_exponent(of_norm, 0),
             "less, at most " + with_exponent(kRounded, 0) + ", " + with_exponent(kNorm, 0),
             found.loss < found.first_loss && of_loss <= kRounded && of_norm <= kNorm});
    } catch (const ConfigError& error) {  // a build without nvcc lacks the kernels
      show_({name, std::string("left out: ") + error.what()});
    }
  }

  // Runs a check twice, with deterministic operators.
  void repeat(const std::string& name, const Check& check) {
    const bool is_chosen = std::getenv(kCublasWorkspaces) != nullptr;
    make_deterministic();
    const int64_t difference =
        train(check, *backend_, world_).sum_of_bits - train(check, *backend_, world_).sum_of_bits;
    at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
    if (!is_chosen) unsetenv(kCublasWorkspaces);  // plans read it
    show_({name, "sums of parameters' bits differ by " + std::to_string(difference), "0",
           difference == 0});
  }

  // Asks for more memory than any device has. Later steps must work.
  void run_out_of_memory() {
    constexpr int64_t kBytes = int64_t{1} << 43;
    std::string found = "memory";
    try {
      const at::Tensor never =
          at::empty({kBytes}, at::TensorOptions(at::kByte).device(backend_->device()));
    } catch (const c10::OutOfMemoryError&) {
      found = "an error";
    }
    show_({"8 TiB of memory", found, "an error", found != "memory"});
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

// Adds a run of each kind of trained parameters and of optimizer state.
void check_methods(StepChecks& checks, const Check& plain) {
  const auto method = [&](Method kind, Offload offload) {
    Check check = plain;
    check.spec.method = kind;
    check.spec.strategy.offload = offload;
    check.learning_rate = 1e-3;
    return check;
  };
  checks.compare_with_cpu("lora", method(Method::kLora, Offload::kNone));
  checks.compare_with_cpu("lora, optimizer offloaded", method(Method::kLora, Offload::kOptimizer));
  checks.compare_with_cpu("lora, parameters offloaded",
                          method(Method::kLora, Offload::kParameters));
  checks.compare_with_cpu("qlora", method(Method::kQlora, Offload::kNone));
  Check int8 = plain;
  int8.spec.optimizer.state_dtype = StateDtype::kInt8;
  checks.compare_with_cpu("int8 state", int8);
  checks.repeat("the same steps twice", plain);
  Check dropping = method(Method::kLora, Offload::kNone);
  dropping.spec.lora.dropout = 0.1;
  checks.repeat("twice with lora and dropout", dropping);
}

}  // namespace

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
  check_methods(checks, plain);
  if (!device.is_cuda()) return;  // products of 16 bits take minutes on some CPUs
  const auto in_precision = [](PrecisionKind kind, Offload offload) {
    return [=](RunSpec& spec) {
      spec.precision.kind = kind;
      spec.optimizer.rounding = Rounding::kNearest;
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
  checks.run_out_of_memory();
  checks.compare("single, after it", plain, expected, kSame);
}

void check_ranks(const WorldEnvironment& world, at::Device device, FailureNotice& notice,
                 const ShowRow& show) {
  ProcessGroupOptions options;
  options.failure_notice = &notice;
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
  notice.let_others_end();
  group->barrier();
}

}  // namespace fsdp
