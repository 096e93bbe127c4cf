// Trains a run on one rank. Ranks decide from sums over all ranks, so all decide alike.
#include "trainer/train/trainer.h"

#include <cmath>
#include <stdexcept>

#include "base/files/gzip.h"
#include "base/files/whole_file.h"
#include "base/system/log.h"
#include "base/system/start_up.h"
#include "base/text/bytes_text.h"
#include "base/text/json.h"
#include "base/text/numbers.h"
#include "contract/families/family.h"
#include "contract/families/flops.h"
#include "contract/spec/run_spec.h"
#include "contract/spec/yaml_value.h"
#include "formats/inputs/inputs.h"
#include "trainer/step/missing_kernels.h"
#include "trainer/train/read_once.h"
#include "trainer/train/stop_signal.h"
#include "trainer/train/weights.h"

namespace fsdp {
namespace {

std::string loss_text(const std::optional<double>& loss) {
  return loss ? with_decimals(*loss, 4) : "not finite";
}

// Returns a line such as "step 12 of 100: loss 3.2104, 412.3 ms, 1.25 GiB".
std::string step_line(const StepDone& step, int64_t planned) {
  return "step " + std::to_string(step.step) + " of " + std::to_string(planned) + ": loss " +
         loss_text(step.loss) + ", " + with_decimals(step.step_time_ms, 1) + " ms, " +
         bytes_text(step.memory_allocated_bytes_max) + (step.skipped ? ", left out" : "");
}

// True if weights come from files.
bool reads_weights(const RunSpec& spec, const CheckpointReader* resumed) {
  return resumed != nullptr || !spec.model.source.empty();
}

// Returns the source of the weights. Counts in `read` the elements that this rank reads.
FillParameter weight_source(const RunSpec& spec, const CheckpointReader* resumed, const Mesh& mesh,
                            at::Device device, int64_t& read) {
  FillParameter counted = [fill = weights_of(spec, resumed), &read](
                              const Parameter& parameter, int64_t offset, const at::Tensor& out) {
    begin_start_up_part("loading " + parameter.tensors().front().name);
    fill(parameter, offset, out);
    read += out.numel();
  };
  if (!reads_weights(spec, resumed) || mesh.replica_group() == nullptr) return counted;
  return read_once(std::move(counted), *mesh.replica_group(), device);
}

bool records_frozen_weights(const RunSpec& spec) {
  return spec.method != Method::kFull && uses_checkpoints(spec);
}

// Adds to `digest` the frozen weights that `fill` fills in, if a checkpoint will record them.
FillParameter recorded(const RunSpec& spec, FrozenDigest& digest, FillParameter fill) {
  return records_frozen_weights(spec) ? with_digest(std::move(fill), digest) : fill;
}

std::optional<FingerprintRecorder> recorder_of(const RunSpec& spec, const ProcessGroup& group,
                                               const CheckpointReader* resumed) {
  if (spec.train.fingerprint_steps.empty()) return {};
  return std::optional<FingerprintRecorder>(
      std::in_place, spec.train.fingerprint_steps,
      FingerprintsBegin{.rank = group.rank(),
                        .ranks = group.size(),
                        .resumed_from_step = resumed == nullptr ? 0 : resumed->state().step,
                        .recomputes = spec.activation_checkpointing.every > 0,
                        .roundoff = roundoff_of(spec)});
}

const ModelConfig& begin_building(const ModelConfig& config) {
  begin_start_up_part("building the model");
  return config;
}

// The mesh waits for ranks that are still reading, so the start-up's timer is paused.
Mesh make_mesh(const RunSpec& spec, ProcessGroup& group) {
  pause_start_up();
  return Mesh(spec.strategy, group);
}

}  // namespace

Trainer::Trainer(const RunSpec& spec, const RunPaths& paths, int attempt, Backend& backend,
                 ProcessGroup& group, EventWriter& events)
    : spec_(spec),
      paths_(paths),
      attempt_(attempt),
      config_(model_config(spec)),
      backend_(backend),
      group_(group),
      events_(events),
      digests_(group),
      data_(spec, config_, paths.folder(),
            [this](const std::filesystem::path& file) { return digests_.digest_of(file); }),
      sampler_(data_.training().rows(), total_batch(spec), spec.data.shuffle, spec.train.seed),
      steps_per_epoch_(steps_per_epoch(data_.training().rows(), total_batch(spec))),
      steps_planned_(planned_steps(spec, steps_per_epoch_)),
      basis_(begin_basis(spec, config_, backend.device(), steps_planned_, digests_)),
      resumed_(open_resumed_checkpoint(spec, paths, config_, basis_, group)),
      mesh_(make_mesh(spec, group)),
      memory_trace_(spec.train.trace_steps > 0
                        ? std::make_unique<MemoryTrace>(backend.memory().requests())
                        : nullptr),
      fingerprints_(recorder_of(spec, group, resumed_.reader.get())),
      step_(spec, begin_building(config_), backend, mesh_, group,
            recorded(
                spec, frozen_,
                weight_source(spec, resumed_.reader.get(), mesh_, backend.device(), weights_read_)),
            fingerprints_ ? &*fingerprints_ : nullptr),
      schedule_(spec.optimizer.learning_rate, spec.schedule, steps_planned_, steps_per_epoch_),
      evaluation_(spec_, data_.validation(), group, backend.device()),
      checkpoints_(spec_, paths, step_, mesh_, group, backend),
      clock_(backend.device()) {
  if (reads_weights(spec, resumed_.reader.get())) {
    log(LogLevel::kInfo, "start",
        "read " + std::to_string(weights_read_) + " of " +
            std::to_string(step_.model().parameter_count()) + " weights");
  }
  if (records_frozen_weights(spec)) {
    basis_.frozen_weights = frozen_.of_all(group, mesh_.is_first_replica());
  }
  if (!resumed_.reader) return;
  // Again, because now the digest of the frozen weights is known.
  require_basis(*resumed_.reader, basis_);
  const TrainerState& state = resumed_.reader->state();
  checkpoints_.load(*resumed_.reader);
  steps_done_ = state.step;
  best_validation_loss_ = state.best_validation_loss;
  resumed_.reader.reset();
}

void Trainer::describe(RunStarted& started) const {
  started.steps_planned = steps_planned_;
  started.parameter_count = static_cast<int64_t>(parameter_count(config_));
  started.trained_parameter_count = step_.model().trained_parameter_count();
  started.resumed_from_step = steps_done_;
  const auto warn = [&](const std::string& warning) {
    if (!started.warning.empty() && !warning.empty()) started.warning += "; ";
    started.warning += warning;
  };
  warn(resumed_.warning);
  warn(slow_rounding_note(spec_, backend_.device().type()));
  if (const std::vector<std::string> keys = unread_config_keys(spec_); !keys.empty()) {
    warn("keys of config.json that are not read: " + joined(keys));
  }
  const int64_t wanted = wanted_steps(spec_, steps_per_epoch_);
  if (steps_planned_ < wanted) {
    warn("train.max_steps ends the run after " + std::to_string(steps_planned_) + " of the " +
         std::to_string(wanted) + " steps that were asked for: the data is not read to its end");
  }
}

int64_t Trainer::run() {
  // A GPU's figures are read one step later. Otherwise this thread would wait for the step.
  const size_t reports_behind = backend_.device().is_cpu() ? 0 : 1;
  last_mark_ = clock_.mark();
  report_memory_peak(0);
  const int64_t warmup_ends = steps_done_ + spec_.train.warmup_steps_excluded;
  if (spec_.train.account_steps > 0 || spec_.train.trace_steps > 0) {
    accounts_.emplace(backend_.device(), group_, warmup_ends, spec_.train.account_steps,
                      spec_.train.trace_steps, memory_trace_.get());
  }
  while (!stop_ && steps_done_ < steps_planned_) {
    if (steps_done_ >= warmup_ends) cpu_meter_.resume();
    reports_.push_back(do_step(steps_done_ + 1));
    ++steps_done_;
    if (reports_.size() > reports_behind) write_report();
    if (accounts_ && accounts_->is_complete()) write_accounts();
    after_step(steps_done_);
    report_memory_peak(steps_done_);
  }
  while (!reports_.empty()) write_report();
  write_accounts();
  advance_checkpoint(/*waits=*/true);
  if (const std::optional<CpuUse> use = cpu_meter_.use()) events_.write(*use);
  return steps_done_;
}

Trainer::Report Trainer::do_step(int64_t step) {
  Report report;
  MemoryProbe& memory = backend_.memory();
  memory.reset_peaks();
  group_.clock().start();
  const bool is_accounted = accounts_ && accounts_->wants(step);
  if (is_accounted) accounts_->begin_step(step);
  StepBatches batches = [&] {
    const WorkScope work(TimePart::kData);
    const MemoryScope scope(MemoryUse::kBatch);
    return load_step(data_.training(), sampler_, step - 1, group_.rank(), spec_, backend_.device());
  }();
  report.event.learning_rate = schedule_.learning_rate(step);
  const TrainingStep::Result result = step_.run(
      step, batches.micro_batches, report.event.learning_rate, stop_requested() ? 1.0 : 0.0, [&] {
        report.event.memory_allocated_bytes_forward = memory.allocated_bytes();
        report.event.memory_reserved_bytes_forward = memory.reserved_bytes();
      });
  report.communication = group_.clock().stop();
  if (fingerprints_ && fingerprints_->is_recording()) write_fingerprints(step);

  const auto or_zero = [&](const at::Tensor& figure) {
    return figure.defined() ? figure : at::zeros_like(result.loss);
  };
  const at::Tensor statistics = at::stack(
      {result.loss, result.votes, or_zero(result.gradient_norm), or_zero(result.is_left_out)});
  report.statistics = at::empty(statistics.sizes(),
                                at::TensorOptions(at::kFloat).pinned_memory(statistics.is_cuda()));
  report.statistics.copy_(statistics, /*non_blocking=*/true);
  report.event.step = step;
  report.event.tokens = batches.tokens;
  report.event.unpadded_tokens = batches.unpadded_tokens;
  report.event.label_count = batches.label_count;
  count_flops(batches.micro_batches, report.event);
  if (step_.scaler()) report.event.gradient_scale = result.gradient_scale;
  report.event.memory_allocated_bytes_max = memory.allocated_bytes_max();
  report.event.memory_reserved_bytes_max = memory.reserved_bytes_max();
  // The time of the last step includes all of the optimizer's work.
  if (is_last_for_now(step)) step_.store().wait_stepped();
  report.end = clock_.mark();
  if (is_accounted) report.account = accounts_->end_step();
  return report;
}

void Trainer::count_flops(std::span<const Batch> micro_batches, StepDone& event) const {
  double model = 0;
  double hardware = 0;
  for (const Batch& batch : micro_batches) {
    const ForwardFlops forward = forward_flops(config_, shape_of(batch), spec_.method, spec_.lora);
    model += model_flops(forward);
    hardware += hardware_flops(forward, spec_.activation_checkpointing);
  }
  event.model_flops = model;
  event.hardware_flops = hardware;
}

void Trainer::write_report() {
  Report report = std::move(reports_.front());
  reports_.pop_front();
  report.event.step_time_ms = report.end->milliseconds_since(*last_mark_);
  report.event.communication_time_ms = report.communication.milliseconds();
  // A GPU's report is written after the next step was issued. A suspension may be in either step,
  // so both are marked.
  const bool is_suspended_now = was_suspended();
  report.event.suspended = is_suspended_now || was_suspended_before_;
  was_suspended_before_ = is_suspended_now;
  if (report.account) {
    accounts_->add(report.event.step, *report.account, *last_mark_, *report.end,
                   report.communication);
  }
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
    advance_checkpoint(/*waits=*/true);
    throw std::runtime_error(
        "the loss of step " + std::to_string(report.event.step) + " is not finite (" +
        shortest(statistics[0]) +
        "); lower optimizer.learning_rate, set optimizer.gradient_clip_norm, or leave such steps "
        "out with train.on_non_finite: skip" +
        (spec_.optimizer.in_backward ? "; both need optimizer.in_backward: false" : ""));
  }
}

void Trainer::write_fingerprints(int64_t step) {
  const std::filesystem::path folder = paths_.fingerprints(attempt_);
  const std::string text = fingerprints_->end_step();
  try {
    std::filesystem::create_directory(folder);
    replace_file(folder / fingerprint_file_name(step, group_.rank()), text, OnDisk::kLater);
  } catch (const std::system_error& error) {
    log(LogLevel::kWarning, "fingerprints", error.what());  // the run goes on without them
  }
}

void Trainer::write_accounts() {
  if (!accounts_) return;
  const std::vector<StepAccount> accounts = accounts_->take();
  for (const StepAccount& account : accounts) events_.write(account);
  if (!accounts.empty() && accounts_->has_trace()) {
    while (!reports_.empty()) write_report();  // so that no step's time has the time of the writing
    try {
      const std::string trace = json_text(accounts_->trace()) + '\n';
      replace_file(paths_.trace(attempt_, group_.rank()), gzipped(trace));
    } catch (const std::system_error& error) {
      log(LogLevel::kWarning, "trace", error.what());  // the run goes on without it
    }
  }
  if (reports_.empty()) last_mark_ = clock_.mark();  // the next step's time begins here
}

void Trainer::report_memory_peak(int64_t step) {
  const AllocationPeak peak = backend_.memory().requests().peak();
  if (peak.bytes <= reported_peak_bytes_) return;
  reported_peak_bytes_ = peak.bytes;
  events_.write(memory_peak(peak, step));
}

bool Trainer::is_last_for_now(int64_t step) const {
  return stop_ || step == steps_planned_ || evaluation_.is_due(step, steps_per_epoch_) ||
         checkpoints_.is_due(step, steps_planned_);
}

void Trainer::after_step(int64_t step) {
  advance_checkpoint(/*waits=*/false);
  if (!is_last_for_now(step)) return;
  // Nothing is saved before the figures of the last steps are known to be good.
  while (!reports_.empty()) write_report();
  step_.store().wait_stepped();
  cpu_meter_.pause();
  validation_loss_.reset();
  const bool is_improved = evaluation_.is_due(step, steps_per_epoch_) && evaluate(step);
  if (checkpoints_.is_due(step, steps_planned_) || (stop_ && wants_checkpoints(spec_)) ||
      (is_improved && spec_.checkpoint.when_improved)) {
    save_checkpoint(step);
  }
  last_mark_ = clock_.mark();  // the next step's time begins here
}

bool Trainer::evaluate(int64_t step) {
  const EvaluationDone done = evaluation_.run(step_, step);
  events_.write(done);
  log(LogLevel::kInfo, "evaluation",
      "step " + std::to_string(step) + ": validation loss " + loss_text(done.loss));
  validation_loss_ = done.loss;
  if (!done.loss || done.loss >= best_validation_loss_.value_or(INFINITY)) return false;
  best_validation_loss_ = done.loss;
  return true;
}

// Two attempts would remove each other's checkpoints. Ranks on a node that was taken for lost do
// not know that the run goes on elsewhere.
void Trainer::check_is_newest_attempt() const {
  const int newest = first_free_attempt(paths_) - 1;
  if (newest <= attempt_) return;
  throw std::runtime_error("attempt " + std::to_string(newest) +
                           " of this run has begun, so attempt " + std::to_string(attempt_) +
                           " ends and saves nothing more");
}

void Trainer::save_checkpoint(int64_t step) {
  advance_checkpoint(/*waits=*/true);
  if (group_.rank() == 0) check_is_newest_attempt();
  TrainerState state;
  state.step = step;
  state.validation_loss = validation_loss_;
  state.best_validation_loss = best_validation_loss_;
  state.basis = basis_;
  checkpoints_.save(std::move(state));
}

void Trainer::advance_checkpoint(bool waits) {
  const std::optional<CheckpointDone> done = checkpoints_.advance(waits);
  if (!done) return;
  events_.write(*done);
  log(LogLevel::kInfo, "checkpoint", "wrote " + done->path);
}

}  // namespace fsdp
