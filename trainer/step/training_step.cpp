#include "trainer/step/training_step.h"

#include "trainer/backend/work.h"
#include "trainer/kernels/on_meta.h"
#include "trainer/memory/counting_allocator.h"
#include "trainer/memory/memory_label.h"
#include "trainer/model/families.h"
#include "trainer/step/gradient_clipping.h"

namespace fsdp {
namespace {

Optimizer make_optimizer(const RunSpec& spec, const ShardStore& store, const Backend& backend) {
  const UncountedMemory where_the_parameters_are(store.is_offloaded());
  const MemoryScope scope(MemoryUse::kOptimizerState);
  return Optimizer(spec.optimizer, flat_units(store), spec.train.seed,
                   store.is_offloaded() ? at::kCPU : backend.planned_for());
}

FillParameter fill_on(const Backend& backend, const FillParameter& fill) {
  if (!backend.device().is_meta()) return fill;
  return [](const Parameter&, int64_t, const at::Tensor&) {};
}

// Throws before weights are loaded.
const ModelConfig& with_attention(const ModelConfig& config, const RunSpec& spec,
                                  Backend& backend) {
  backend.kernels().require_attention(dtypes_of(spec.precision).compute, config.head_width());
  return config;
}

Work work_on_gradients(const char* name, ShardStore& store) {
  Work work{.name = name};
  for (const at::Tensor& gradient : store.gradients()) work.width += gradient.numel();
  return work;
}

}  // namespace

TrainingStep::TrainingStep(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                           const Mesh& mesh, ProcessGroup& world, const FillParameter& fill)
    : spec_(spec),
      backend_(backend),
      mesh_(mesh),
      world_(world),
      model_(make_model(with_attention(config, spec, backend), dtypes_of(spec.precision).buffers)),
      units_(wrap_modules(model_, spec.strategy.wrap)),
      store_(model_, units_, shard_store_options(spec, mesh), backend, fill_on(backend, fill)),
      strategy_(make_strategy(spec, store_, backend.streams(), mesh)),
      engine_(model_, units_, *strategy_, backend.streams(), backend.kernels(),
              {.checkpoint_every = spec.activation_checkpointing.every,
               .checkpointed = spec.activation_checkpointing.what,
               .prefetch = spec.strategy.prefetch}),
      optimizer_(make_optimizer(spec, store_, backend)) {
  if (spec.precision.kind == PrecisionKind::kFp16Mixed) scaler_.emplace();
}

// Streams and the optimizer's thread use every member.
TrainingStep::~TrainingStep() { backend_.streams().drain(); }

TrainingStep::Result TrainingStep::run(int64_t step, std::span<Batch> micro_batches,
                                       double learning_rate, double vote,
                                       const std::function<void()>& at_forward_end) {
  Result result;
  if (scaler_) {
    result.gradient_scale = scaler_->scale();
    for (Batch& batch : micro_batches) batch.gradient_scale = scaler_->scale();
  }
  leave_out_.reset();
  store_.begin_step([=, this](int unit, const at::Tensor& parameters, const at::Tensor& gradient) {
    const MemoryScope scope(MemoryPhase::kOptimizer, unit, MemoryUse::kOther);
    const WorkScope work([&] { return Work{.name = kOptimizerWork, .width = parameters.numel()}; });
    optimizer_.step(unit, step, parameters, gradient, learning_rate, leave_out_);
  });
  const at::Tensor loss = engine_.forward_backward(micro_batches, at_forward_end);
  at::Tensor sums = at::stack({loss, at::full_like(loss, vote)});
  world_.all_reduce(sums).wait();
  result.loss = sums[0];
  result.votes = sums[1];
  check_gradients(result);
  store_.finish_step();
  return result;
}

void TrainingStep::check_gradients(Result& result) {
  const MemoryScope scope(MemoryPhase::kOptimizer);
  const at::Device device = backend_.device();
  at::Tensor leave_out;
  if (scaler_) {
    leave_out = scaler_->unscale(store_.gradients(), world_, device);
    scaler_->update(backend_.read(leave_out) != 0);
  }
  const std::optional<double> max_norm = spec_.optimizer.gradient_clip_norm;
  if (max_norm || spec_.train.report_gradient_norm) {
    const WorkScope work([&] { return work_on_gradients(kNormWork, store_); });
    result.gradient_norm = gradient_norm_of(store_.gradients(), mesh_.shard_group(), device);
  }
  if (max_norm) {
    const WorkScope work([&] { return work_on_gradients(kClipWork, store_); });
    clip_gradients(store_.gradients(), result.gradient_norm, *max_norm);
  }
  if (spec_.train.on_non_finite == OnNonFinite::kSkip) {
    at::Tensor is_bad = is_finite(result.loss).bitwise_not_();
    if (max_norm) is_bad.bitwise_or_(is_finite(result.gradient_norm).bitwise_not_());
    if (store_.is_offloaded()) is_bad = is_bad.to(backend_.host());
    if (leave_out.defined()) is_bad.bitwise_or_(leave_out.to(at::kBool));
    leave_out = is_bad.to(at::kFloat);
  }
  // Where units are stepped on arrival there is nothing to leave out, and the optimizer's thread
  // may be reading.
  if (!leave_out.defined()) return;
  leave_out_ = leave_out;
  result.is_left_out = leave_out.to(device);
}

}  // namespace fsdp
