#include "trainer/train/trainer.h"

#include <cmath>
#include <stdexcept>

#include "contract/inputs/inputs.h"
#include "contract/record/log.h"
#include "contract/record/start_up.h"
#include "contract/text/numbers.h"
#include "trainer/engine/counting_allocator.h"
#include "trainer/model/llama.h"
#include "trainer/train/gradient_clipping.h"
#include "trainer/train/random_state.h"
#include "trainer/train/stop_signal.h"
#include "trainer/train/weights.h"

namespace fsdp {
namespace {

std::string loss_text(const std::optional<double>& loss) {
  return loss ? with_decimals(*loss, 4) : "not finite";
}

// "step 12 of 100: loss 3.2104, 412.3 ms, 1.25 GiB".
std::string step_line(const StepDone& step, int64_t planned) {
  constexpr double kBytesPerGibibyte = 1 << 30;
  const double memory_gib =
      static_cast<double>(step.memory_allocated_bytes_max) / kBytesPerGibibyte;
  return "step " + std::to_string(step.step) + " of " + std::to_string(planned) + ": loss " +
         loss_text(step.loss) + ", " + with_decimals(step.step_time_ms, 1) + " ms, " +
         with_decimals(memory_gib, 2) + " GiB" + (step.skipped ? ", left out" : "");
}

FillParameter weight_source(const RunSpec& spec, const CheckpointReader* resumed) {
  FillParameter fill;
  if (resumed == nullptr) {
    fill = make_weight_source(spec);
  } else {
    fill = [resumed](const Parameter& parameter, int64_t offset, const at::Tensor& out) {
      resumed->read(kWeights, parameter, offset, out);
    };
  }
  return [fill](const Parameter& parameter, int64_t offset, const at::Tensor& out) {
    begin_start_up_part("loading " + parameter.tensors().front().name);
    fill(parameter, offset, out);
  };
}

Model make_model(const RunSpec& spec) {
  const ModelConfig config = model_config(spec);
  begin_start_up_part("building the model");
  return make_llama(config, dtypes_of(spec.precision).buffers);
}

// Waits for ranks that are still reading.
Mesh make_mesh(const RunSpec& spec, ProcessGroup& group) {
  pause_start_up();
  return Mesh(spec.strategy, group);
}

Optimizer make_optimizer(const RunSpec& spec, const ShardStore& store) {
  const HostMemory where_the_parameters_are(store.is_offloaded());
  return Optimizer(spec.optimizer, flat_units(store), spec.train.seed);
}

}  // namespace

Trainer::Trainer(const RunSpec& spec, const RunPaths& paths, at::Device device, ProcessGroup& group,
                 EventWriter& events)
    : spec_(spec),
      device_(device),
      group_(group),
      events_(events),
      data_(spec, model_config(spec).vocab_size),
      sampler_(data_.training().size(), total_batch(spec), spec.data.shuffle, spec.train.seed),
      steps_per_epoch_(steps_per_epoch(data_.training().size(), total_batch(spec))),
      steps_planned_(planned_steps(spec, steps_per_epoch_)),
      data_order_(data_order(spec, data_.training().size(), group)),
      resumed_(open_resumed_checkpoint(spec, paths, data_order_, group)),
      model_(make_model(spec)),
      units_(wrap_modules(model_, spec.strategy.wrap)),
      streams_(make_streams(device)),
      mesh_(make_mesh(spec, group)),
      store_(model_, units_, shard_store_options(spec, mesh_, device), *streams_,
             weight_source(spec, resumed_.reader.get())),
      strategy_(make_strategy(spec, store_, *streams_, mesh_)),
      engine_(model_, units_, *strategy_, *streams_,
              {.checkpoint_every = spec.activation_checkpointing.every,
               .prefetch = spec.strategy.prefetch}),
      optimizer_(make_optimizer(spec, store_)),
      schedule_(spec.optimizer.learning_rate, spec.schedule, steps_planned_, steps_per_epoch_),
      evaluation_(spec_, data_.validation(), group, device),
      checkpoints_(spec_, paths, model_, store_, optimizer_, mesh_, group),
      memory_(make_memory_probe(device)),
      clock_(device) {
  if (spec.precision.kind == PrecisionKind::kFp16Mixed) scaler_.emplace();
  if (!resumed_.reader) return;
  const TrainerState& state = resumed_.reader->state();
  checkpoints_.load_optimizer(*resumed_.reader);
  if (scaler_) scaler_->set_state(*state.gradient_scaler);
  // Other ranks than wrote it draw other numbers.
  if (state.generators && std::ssize(*state.generators) == group.size() &&
      !set_generator_state((*state.generators)[group.rank()], device)) {
    if (!resumed_.warning.empty()) resumed_.warning += "; ";
    resumed_.warning +=
        "the checkpoint's random generators are of another libtorch; they begin anew";
  }
  steps_done_ = state.step;
  best_validation_loss_ = state.best_validation_loss;
  resumed_.reader.reset();
}

void Trainer::describe(RunStarted& started) const {
  started.steps_planned = steps_planned_;
  started.parameter_count = model_.parameter_count();
  started.resumed_from_step = steps_done_;
  started.warning = resumed_.warning;
  const int64_t wanted = wanted_steps(spec_, steps_per_epoch_);
  if (steps_planned_ < wanted) {
    if (!started.warning.empty()) started.warning += "; ";
    started.warning += "train.max_steps " + std::to_string(steps_planned_) + " x accumulation " +
                       std::to_string(*spec_.batch.gradient_accumulation_steps) +
                       " is less than the micro-batches of the " + std::to_string(wanted) +
                       " steps asked for: the data is not read to its end";
  }
}

int64_t Trainer::run() {
  // Figures of a device are read one step later, so that the step is never waited for.
  const size_t reports_behind = device_.is_cpu() ? 0 : 1;
  last_mark_ = clock_.mark();
  while (!stop_ && steps_done_ < steps_planned_) {
    reports_.push_back(do_step(steps_done_ + 1));
    ++steps_done_;
    if (reports_.size() > reports_behind) write_report();
    after_step(steps_done_);
  }
  while (!reports_.empty()) write_report();
  return steps_done_;
}

Trainer::Report Trainer::do_step(int64_t step) {
  Report report;
  memory_->reset_peaks();
  group_.clock().start();
  StepBatches batches =
      load_step(*data_.training().data_set, sampler_, step - 1, group_.rank(), spec_, device_);
  if (scaler_) {
    report.event.gradient_scale = scaler_->scale();
    for (Batch& batch : batches.micro_batches) batch.gradient_scale = scaler_->scale();
  }
  const double learning_rate = schedule_.learning_rate(step);
  leave_out_.reset();
  store_.begin_step([=, this](int unit, const at::Tensor& parameters, const at::Tensor& gradient) {
    optimizer_.step(unit, step, parameters, gradient, learning_rate, leave_out_);
  });
  const at::Tensor loss = engine_.forward_backward(batches.micro_batches, [&] {
    report.event.memory_allocated_bytes_forward = memory_->allocated_bytes();
    report.event.memory_reserved_bytes_forward = memory_->reserved_bytes();
  });
  const at::Tensor stop = at::full_like(loss, stop_requested() ? 1.0 : 0.0);
  at::Tensor statistics = at::stack({loss, stop});
  group_.all_reduce(statistics).wait();

  at::Tensor gradient_norm;
  // Where units are stepped on arrival there is nothing to leave out, and the optimizer's thread
  // may be reading.
  if (at::Tensor leave_out = check_gradients(statistics, gradient_norm); leave_out.defined()) {
    leave_out_ = std::move(leave_out);
  }
  store_.finish_step();
  report.communication = group_.clock().stop();

  const at::Tensor none = at::zeros_like(loss);
  statistics =
      at::cat({statistics, at::stack({gradient_norm.defined() ? gradient_norm : none,
                                      leave_out_.defined() ? leave_out_.to(device_) : none})});
  report.statistics =
      at::empty(statistics.sizes(), at::TensorOptions(at::kFloat).pinned_memory(!device_.is_cpu()));
  report.statistics.copy_(statistics, /*non_blocking=*/true);
  report.event.step = step;
  report.event.tokens = total_batch(spec_) * spec_.data.sequence_length;
  report.event.label_count = batches.label_count;
  report.event.learning_rate = learning_rate;
  report.event.memory_allocated_bytes_max = memory_->allocated_bytes_max();
  report.event.memory_reserved_bytes_max = memory_->reserved_bytes_max();
  report.end = clock_.mark();
  return report;
}

// Unscales and clips, too.
at::Tensor Trainer::check_gradients(const at::Tensor& loss_and_stop, at::Tensor& gradient_norm) {
  at::Tensor leave_out;
  if (scaler_) {
    leave_out = scaler_->unscale(store_.gradients(), group_, device_);
    scaler_->update(leave_out.item<float>() != 0);
  }
  const std::optional<double> max_norm = spec_.optimizer.gradient_clip_norm;
  if (max_norm || spec_.train.report_gradient_norm) {
    gradient_norm = gradient_norm_of(store_.gradients(), mesh_.shard_group(), device_);
  }
  if (max_norm) clip_gradients(store_.gradients(), gradient_norm, *max_norm);
  if (spec_.train.on_non_finite == OnNonFinite::kSkip) {
    at::Tensor is_bad = loss_and_stop[0].isfinite().logical_not_();
    if (max_norm) is_bad.logical_or_(gradient_norm.isfinite().logical_not_());
    if (store_.is_offloaded()) is_bad = is_bad.cpu();
    if (leave_out.defined()) is_bad.logical_or_(leave_out.to(at::kBool));
    leave_out = is_bad.to(at::kFloat);
  }
  return leave_out;
}

void Trainer::write_report() {
  Report report = std::move(reports_.front());
  reports_.pop_front();
  report.event.step_time_ms = report.end->milliseconds_since(*last_mark_);
  report.event.communication_time_ms = report.communication.milliseconds();
  last_mark_ = std::move(report.end);
  const float* statistics = report.statistics.const_data_ptr<float>();
  report.event.non_finite = !std::isfinite(statistics[0]);
  if (!report.event.non_finite) report.event.loss = statistics[0];
  if (spec_.optimizer.gradient_clip_norm || spec_.train.report_gradient_norm) {
    report.event.gradient_norm = statistics[2];
  }
  report.event.skipped = statistics[3] != 0;
  events_.write(report.event);
  log(LogLevel::kInfo, "train", step_line(report.event, steps_planned_));
  if (statistics[1] != 0) stop_ = true;
  if (report.event.non_finite && spec_.train.on_non_finite == OnNonFinite::kStop) {
    throw std::runtime_error(
        "the loss of step " + std::to_string(report.event.step) + " is not finite (" +
        shortest(statistics[0]) +
        "); lower optimizer.learning_rate, set optimizer.gradient_clip_norm, or leave such steps "
        "out with train.on_non_finite: skip");
  }
}

void Trainer::after_step(int64_t step) {
  const bool is_evaluation_due = evaluation_.is_due(step, steps_per_epoch_);
  const bool is_last = stop_ || step == steps_planned_;
  if (!is_evaluation_due && !is_last && !checkpoints_.is_due(step, steps_planned_)) return;
  // Nothing is saved after a step whose figures are not known to be good.
  while (!reports_.empty()) write_report();
  validation_loss_.reset();
  const bool is_improved = is_evaluation_due && evaluate(step);
  if (checkpoints_.is_due(step, steps_planned_) || (stop_ && wants_checkpoints(spec_)) ||
      (is_improved && spec_.checkpoint.when_improved)) {
    save_checkpoint(step);
  }
  last_mark_ = clock_.mark();  // the next step's time is its own
}

bool Trainer::evaluate(int64_t step) {
  const EvaluationDone done = evaluation_.run(engine_, step);
  events_.write(done);
  log(LogLevel::kInfo, "evaluation",
      "step " + std::to_string(step) + ": validation loss " + loss_text(done.loss));
  validation_loss_ = done.loss;
  if (!done.loss || done.loss >= best_validation_loss_.value_or(INFINITY)) return false;
  best_validation_loss_ = done.loss;
  return true;
}

void Trainer::save_checkpoint(int64_t step) {
  TrainerState state;
  state.step = step;
  state.validation_loss = validation_loss_;
  state.best_validation_loss = best_validation_loss_;
  if (scaler_) state.gradient_scaler = scaler_->state();
  state.data = data_order_;
  const CheckpointDone done = checkpoints_.save(std::move(state));
  if (group_.rank() != 0) return;
  events_.write(done);
  log(LogLevel::kInfo, "checkpoint", "wrote " + done.path);
}

}  // namespace fsdp
