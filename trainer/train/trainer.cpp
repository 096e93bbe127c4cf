#include "trainer/train/trainer.h"

#include <cmath>

#include "trainer/contract/inputs.h"
#include "trainer/model/llama.h"
#include "trainer/train/gradient_clipping.h"
#include "trainer/train/stop_signal.h"
#include "trainer/train/weights.h"

namespace fsdp {
namespace {

at::TensorOptions parameter_options(Precision precision, at::Device device) {
  return at::TensorOptions().device(device).dtype(precision == Precision::kFp32 ? at::kFloat
                                                                                : at::kBFloat16);
}

int64_t plan_steps(const RunSpec& spec, int64_t rows) {
  if (spec.train.steps) return *spec.train.steps;
  return *spec.train.epochs * steps_per_epoch(rows, total_batch(spec));
}

}  // namespace

Trainer::Trainer(const RunSpec& spec, at::Device device, ProcessGroup& group, EventWriter& events)
    : spec_(spec),
      device_(device),
      group_(group),
      events_(events),
      data_(make_data_set(spec, model_config(spec).vocab_size)),
      sampler_(data_->rows(), total_batch(spec), spec.data.shuffle, spec.train.seed),
      steps_planned_(plan_steps(spec, data_->rows())),
      model_(make_llama(model_config(spec))),
      streams_(make_streams(device)),
      store_(model_,
             shard_store_options(spec.strategy, group, parameter_options(spec.precision, device)),
             *streams_, make_weight_source(spec)),
      strategy_(make_strategy(spec.strategy, store_, *streams_, group)),
      engine_(model_, *strategy_, *streams_, spec.activation_checkpointing.every),
      optimizer_(spec.optimizer, store_.optimizer_parameters()),
      memory_(make_memory_probe(device)),
      clock_(device) {}

int64_t Trainer::run() {
  // Figures of a device are read one step later, so that the step is never waited for.
  const size_t reports_behind = device_.is_cpu() ? 0 : 1;
  last_mark_ = clock_.mark();
  int64_t step = 0;
  bool go_on = true;
  while (go_on && step < steps_planned_) {
    reports_.push_back(do_step(++step));
    if (reports_.size() > reports_behind) go_on = write_report();
  }
  while (!reports_.empty()) write_report();
  return step;
}

Trainer::Report Trainer::do_step(int64_t step) {
  Report report;
  memory_->reset_peaks();
  const StepBatches batches = load_step(*data_, sampler_, step - 1, group_.rank(), spec_, device_);
  const at::Tensor loss = engine_.forward_backward(batches.micro_batches, [&] {
    report.event.memory_allocated_bytes_forward = memory_->allocated_bytes();
    report.event.memory_reserved_bytes_forward = memory_->reserved_bytes();
  });
  const at::Tensor stop = at::full_like(loss, stop_requested() ? 1.0 : 0.0);
  at::Tensor statistics = at::stack({loss, stop});
  Pending statistics_on_the_way = group_.all_reduce(statistics);

  at::Tensor gradient_norm;
  if (spec_.optimizer.gradient_clip_norm) {
    gradient_norm = clip_gradients(store_.gradients(), *spec_.optimizer.gradient_clip_norm,
                                   store_.is_sharded() ? &group_ : nullptr, device_);
  }
  store_.step([&](int unit, const at::Tensor& parameters, const at::Tensor& gradient) {
    optimizer_.step(unit, parameters, gradient);
  });

  statistics_on_the_way.wait();
  if (gradient_norm.defined()) statistics = at::cat({statistics, gradient_norm.reshape({1})});
  report.statistics =
      at::empty(statistics.sizes(), at::TensorOptions(at::kFloat).pinned_memory(!device_.is_cpu()));
  report.statistics.copy_(statistics, /*non_blocking=*/true);
  report.event.step = step;
  report.event.tokens = total_batch(spec_) * spec_.data.sequence_length;
  report.event.label_count = batches.label_count;
  report.event.learning_rate = spec_.optimizer.learning_rate;
  report.event.memory_allocated_bytes_max = memory_->allocated_bytes_max();
  report.event.memory_reserved_bytes_max = memory_->reserved_bytes_max();
  report.end = clock_.mark();
  return report;
}

bool Trainer::write_report() {
  Report report = std::move(reports_.front());
  reports_.pop_front();
  report.event.step_time_ms = report.end->milliseconds_since(*last_mark_);
  last_mark_ = std::move(report.end);
  const float* statistics = report.statistics.const_data_ptr<float>();
  report.event.non_finite = !std::isfinite(statistics[0]);
  if (!report.event.non_finite) report.event.loss = statistics[0];
  if (spec_.optimizer.gradient_clip_norm) report.event.gradient_norm = statistics[2];
  events_.write(report.event);
  return statistics[1] == 0;
}

}  // namespace fsdp
