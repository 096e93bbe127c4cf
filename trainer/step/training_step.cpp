// Joins model, strategy, engine and optimizer to a run's step.
#include "trainer/step/training_step.h"

#include "base/text/config_error.h"
#include "trainer/kernels/kernels.h"
#include "trainer/kernels/on_meta.h"
#include "trainer/kernels/work.h"
#include "trainer/memory/counting_allocator.h"
#include "trainer/memory/memory_label.h"
#include "trainer/model/families.h"
#include "trainer/step/gradient_clipping.h"
#include "trainer/step/missing_kernels.h"

namespace fsdp {
namespace {

std::shared_ptr<Optimizer> make_optimizer(const RunSpec& spec, ShardStore& store,
                                          const Backend& backend) {
  const UncountedMemory where_the_parameters_are(store.is_offloaded());
  const MemoryScope scope(MemoryUse::kOptimizerState);
  return std::make_shared<Optimizer>(spec.optimizer, flat_units(store), spec.train.seed,
                                     store.is_offloaded() ? at::kCPU : backend.planned_for());
}

FillParameter fill_on(const Backend& backend, const FillParameter& fill) {
  if (!backend.device().is_meta()) return fill;
  return [](const Parameter&, int64_t, const at::Tensor&) {};
}

// Returns `config`. Throws ConfigError, before weights are loaded, if the device lacks kernels for
// the run. Does not throw on meta if only bf16 is missing, because plans warn of it.
const ModelConfig& with_kernels(const ModelConfig& config, const RunSpec& spec, Backend& backend) {
  refuse_without_cuda_kernels(spec, backend.planned_for());
  const bool has_attention = backend.kernels().has_attention(dtypes_of(spec.precision).compute);
  if (has_attention || backend.device().is_meta()) return config;
  throw ConfigError("", "precision",
                    "bf16 needs a GPU of compute capability 8.0 (Ampere) or later; set precision: "
                    "fp16_mixed, or fp32");
}

Model watched(Model model, FingerprintRecorder* recorder) {
  return recorder == nullptr ? std::move(model) : recorder->watched(std::move(model));
}

std::unique_ptr<Strategy> watched(std::unique_ptr<Strategy> strategy, FingerprintRecorder* recorder,
                                  const Model& model, std::span<const Unit> units,
                                  Streams& streams) {
  if (recorder == nullptr) return strategy;
  return recorder->watched(std::move(strategy), model, units, streams);
}

Work norm_work(const std::vector<at::Tensor>& gradients) {
  Work work{.name = kNormWork, .part = TimePart::kClipping};
  for (const at::Tensor& gradient : gradients) work.width += gradient.numel();
  return work;
}

}  // namespace

TrainingStep::TrainingStep(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                           const Mesh& mesh, ProcessGroup& world, const FillParameter& fill,
                           FingerprintRecorder* recorder)
    : spec_(spec),
      config_(config),
      backend_(backend),
      mesh_(mesh),
      world_(world),
      recorder_(recorder),
      model_(watched(make_model(with_kernels(config, spec, backend),
                                dtypes_of(spec.precision).buffers, spec.method, spec.lora),
                     recorder)),
      units_(wrap_modules(model_, spec.strategy.wrap)),
      store_(model_, units_, shard_store_options(spec, mesh), backend, fill_on(backend, fill)),
      strategy_(watched(make_strategy(spec, store_, backend.streams(), mesh), recorder, model_,
                        units_, backend.streams())),
      engine_(model_, units_, *strategy_, backend.streams(), backend.kernels(),
              {.checkpoint_every = spec.activation_checkpointing.every,
               .checkpointed = spec.activation_checkpointing.what,
               .prefetch = spec.strategy.prefetch}),
      optimizer_(make_optimizer(spec, store_, backend)) {
  if (spec.precision.kind == PrecisionKind::kFp16Mixed) scaler_.emplace();
}

// Streams and the optimizer's thread use every member, so they finish first.
TrainingStep::~TrainingStep() { backend_.streams().drain(); }

TrainingStep::Result TrainingStep::run(int64_t step, std::span<Batch> micro_batches,
                                       double learning_rate, double vote,
                                       const std::function<void()>& at_forward_end) {
  Result result;
  if (scaler_) {
    result.gradient_scale = scaler_->scale();
    for (Batch& batch : micro_batches) batch.gradient_scale = scaler_->scale();
  }
  if (recorder_ != nullptr) recorder_->begin_step(step, micro_batches);
  gradients_ = std::make_shared<Gradients>();
  store_.begin_step(recorded(step_unit(step, learning_rate)), see_gradient());
  const at::Tensor loss = engine_.forward_backward(micro_batches, at_forward_end);
  // One collective for both, because each costs a latency.
  at::Tensor sums = at::stack({loss, at::full_like(loss, vote)});
  {
    const WorkScope wait(TimePart::kAllReduce);
    world_.all_reduce(sums).wait();
  }
  result.loss = sums[0];
  result.votes = sums[1];
  check_gradients(result);
  store_.finish_step();
  if (is_recorded()) store_.wait_stepped();
  return result;
}

StepUnit TrainingStep::step_unit(int64_t step, double learning_rate) {
  // The function shares its data, because the optimizer's thread may run it during the next step.
  return [=, optimizer = optimizer_, gradients = gradients_](int unit, const at::Tensor& parameters,
                                                             const at::Tensor& gradient) {
    const MemoryScope scope(MemoryPhase::kOptimizer, unit, MemoryUse::kOther);
    const WorkScope work([&] {
      return Work{
          .name = kOptimizerWork, .width = parameters.numel(), .part = TimePart::kOptimizer};
    });
    optimizer->step(unit, step, parameters, gradient, learning_rate, gradients->verdict);
  };
}

StepUnit TrainingStep::recorded(StepUnit step) {
  if (!is_recorded()) return step;
  // The step waits for the optimizer's thread, so this object is there.
  return [this, step = std::move(step)](int unit, const at::Tensor& parameters,
                                        const at::Tensor& gradient) {
    const FlatLayout& layout = store_.layout(unit);
    const int64_t shard = store_.options().shard_index;
    const auto record = [&](Quantity of, const at::Tensor& values) {
      layout.for_each_part(values, shard,
                           [&](const Parameter& parameter, int64_t first, const at::Tensor& part) {
                             recorder_->add_part(of, parameter, first, part);
                           });
    };
    const auto record_state = [&](Quantity of) {
      optimizer_->for_each_state(
          unit, layout, shard,
          [&](const std::string& name, const Parameter& parameter, int64_t first,
              const at::Tensor& part) { recorder_->add_part(of, parameter, first, part, name); });
    };
    record(Quantity::kWeight, parameters);
    record_state(Quantity::kState);
    record(Quantity::kGradient, gradient);
    step(unit, parameters, gradient);
    record_state(Quantity::kNewState);
    record(Quantity::kNewWeight, parameters);
  };
}

SeeGradient TrainingStep::see_gradient() {
  if (!needs_norm()) return {};
  gradients_->norms.resize(static_cast<size_t>(store_.unit_count()));
  return [gradients = gradients_](int unit, const at::Tensor& gradient) {
    const MemoryScope scope(MemoryPhase::kOptimizer, unit, MemoryUse::kOther);
    const WorkScope work([&] { return norm_work({gradient}); });
    gradients->norms[static_cast<size_t>(unit)] = norms_of_parts({gradient}, at::kCPU);
  };
}

bool TrainingStep::needs_norm() const {
  return spec_.optimizer.gradient_clip_norm || spec_.train.report_gradient_norm || scaler_;
}

at::Tensor TrainingStep::measure_norm(Result& result) {
  if (!needs_norm()) return {};
  const std::vector<at::Tensor> gradients = store_.gradients();
  std::vector<at::Tensor> norms;
  if (store_.is_offloaded()) {
    for (const auto& of_unit : gradients_->norms) {
      norms.insert(norms.end(), of_unit.begin(), of_unit.end());
    }
  } else {
    const WorkScope work([&] { return norm_work(gradients); });
    norms = norms_of_parts(gradients, backend_.planned_for());
  }
  at::Tensor norm = global_norm_of(norms, mesh_.shard_group(), backend_.device());
  // The gradients still have the loss's scale.
  norm.div_(result.gradient_scale);
  const bool is_only_for_scaler =
      !spec_.optimizer.gradient_clip_norm && !spec_.train.report_gradient_norm;
  if (!is_only_for_scaler) result.gradient_norm = norm;
  return norm;
}

void TrainingStep::record(Quantity of, const at::Tensor& number) {
  if (is_recorded() && number.defined()) recorder_->add_number(of, number);
}

void TrainingStep::check_gradients(Result& result) {
  const MemoryScope scope(MemoryPhase::kOptimizer);
  const std::optional<double> max_norm = spec_.optimizer.gradient_clip_norm;
  const bool is_skipping = spec_.train.on_non_finite == OnNonFinite::kSkip;
  const at::Tensor norm = measure_norm(result);
  record(Quantity::kGradientNorm, norm);
  at::Tensor divisor;
  if (max_norm) divisor = clip_divisor(norm, *max_norm).mul_(result.gradient_scale);
  if (scaler_ && !max_norm) divisor = at::full_like(norm, result.gradient_scale);
  record(Quantity::kClipDivisor, divisor);

  at::Tensor is_bad;
  if (scaler_ || (is_skipping && max_norm)) is_bad = is_finite(norm).bitwise_not_();
  // Waits for the device: the next step's loss needs the scale.
  if (scaler_) scaler_->update(backend_.read(is_bad) != 0);
  if (is_skipping) {
    const at::Tensor is_bad_loss = is_finite(result.loss).bitwise_not_();
    is_bad = is_bad.defined() ? is_bad.bitwise_or_(is_bad_loss) : is_bad_loss;
  }
  if (is_bad.defined()) result.is_left_out = is_bad.to(at::kFloat);

  // If units are stepped on arrival, there is no verdict to set, and the optimizer's thread may be
  // reading gradients_.
  if (!divisor.defined() && !is_bad.defined()) return;
  const auto there = [&](const at::Tensor& number) {
    if (!number.defined() || !store_.is_offloaded()) return number;
    const UncountedMemory beside_a_gpu(backend_.planned_for() != at::kCPU);
    return number.to(number.options().device(backend_.host()), /*non_blocking=*/false,
                     /*copy=*/true);
  };
  gradients_->verdict = {.divisor = there(divisor), .found_non_finite = there(result.is_left_out)};
}

}  // namespace fsdp
