// Takes the events of an attempt's ranks, and computes what follows from them. Each counts once.
#include "runner/store/attempt_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <type_traits>

#include "contract/devices/device_table.h"
#include "runner/store/quantile.h"

namespace fsdp {
namespace {

// Returns the quantile of the values after the warm-up, or of all if there are no more. nullopt if
// there are none. `values` are in the order of steps; the call reorders them.
std::optional<double> quantile_after(int64_t warmup_steps_excluded, std::vector<double>& values,
                                     double fraction = 0.5) {
  if (values.empty()) return std::nullopt;
  const bool has_more = std::ssize(values) > warmup_steps_excluded;
  const size_t first = has_more ? static_cast<size_t>(warmup_steps_excluded) : 0;
  return quantile(std::span(values).subspan(first), fraction);
}

template <typename T>
void include(std::optional<T>& largest, std::type_identity_t<std::optional<T>> value) {
  largest = std::max(largest, value);
}

template <typename T>
void include_least(std::optional<T>& least, std::optional<T> value) {
  if (value && (!least || *value < *least)) least = value;
}

void add_where_known(std::optional<double>& sum, std::optional<double> term) {
  sum = sum && term ? std::optional(*sum + *term) : std::nullopt;
}

std::optional<double> peak_tflops(const std::string& device_name, std::optional<Dtype> compute) {
  const DeviceModel* device = device_table().device_of(device_name);
  return device && compute ? device->peak_tflops(*compute) : std::nullopt;
}

// Returns the time of a step without waits for other ranks.
double work_ms(const StepAccount& account) {
  return account.step_time_ms - account.parts[TimePart::kSlowerRanks];
}

constexpr double kRecentStepWeight = 0.2;

// Negative durations are dropped, because clocks of older trainers could be set back.
template <typename T>
std::optional<T> not_negative(T duration) {
  return duration < 0 ? std::nullopt : std::optional(duration);
}

}  // namespace

AttemptReports::AttemptReports(const Attempt& attempt)
    : attempt_(attempt), ranks_(static_cast<size_t>(attempt.ranks)) {
  for (int rank = 0; rank < attempt.ranks; ++rank) states_.emplace_back().rank = rank;
}

void AttemptReports::add(std::span<const std::vector<Event>> events_of_ranks) {
  for (size_t rank = 0; rank < events_of_ranks.size(); ++rank) {
    for (const Event& event : events_of_ranks[rank]) add(static_cast<int64_t>(rank), event);
  }
}

void AttemptReports::add(int64_t rank, const Event& event) {
  const bool is_start = std::holds_alternative<RunStarted>(event.body);
  add(rank, event.time_unix_ms - (is_start ? event.elapsed_ms.value_or(0) : 0), event.body);
  add_last_time(rank, event.time_unix_ms);
  progress_.elapsed_ms = std::max(progress_.elapsed_ms, event.elapsed_ms.value_or(0));
}

void AttemptReports::add(int64_t rank, int64_t time_unix_ms, const decltype(Event::body)& body) {
  add_last_time(rank, time_unix_ms);
  std::visit([&](const auto& report) { take(rank, time_unix_ms, report); }, body);
}

void AttemptReports::add_last_time(int64_t rank, int64_t time_unix_ms) {
  include(states_.at(static_cast<size_t>(rank)).last_event_unix_ms, time_unix_ms);
}

void AttemptReports::take(int64_t rank, int64_t time_unix_ms, const RunStarted& started) {
  at(rank).facts = started;
  at(rank).peak_tflops = peak_tflops(started.device_name, attempt_.compute);
  state(rank).started_unix_ms = time_unix_ms;
  progress_.steps_planned = started.steps_planned;
  progress_.resumed_from_step = started.resumed_from_step;
}

void AttemptReports::take(int64_t rank, int64_t time_unix_ms, const StepDone& done) {
  RankState& own = state(rank);
  if (own.steps > 0 && done.step <= own.last_step) return;
  own.last_step = done.step;
  ++own.steps;
  if (!done.suspended) at(rank).step_times_ms.push_back(done.step_time_ms);
  RankSummary& largest = at(rank).largest;
  include(largest.memory_allocated_bytes_forward, done.memory_allocated_bytes_forward);
  include(largest.memory_reserved_bytes_forward, done.memory_reserved_bytes_forward);
  include(largest.memory_allocated_bytes_max, done.memory_allocated_bytes_max);
  include(largest.memory_reserved_bytes_max, done.memory_reserved_bytes_max);
  progress_.memory_allocated_bytes_max =
      std::max(progress_.memory_allocated_bytes_max, done.memory_allocated_bytes_max);

  Step& step = step_numbered(done.step);
  if (step.rank_count == 0 || done.step_time_ms > step.step_time_ms) {
    step.step_time_ms = done.step_time_ms;
    step.communication_time_ms = done.communication_time_ms;
  }
  step.tokens = done.tokens;
  step.unpadded_tokens = done.unpadded_tokens;
  step.label_count = done.label_count;
  step.is_suspended |= done.suspended;
  ++step.rank_count;
  add_where_known(step.model_flops, done.model_flops);
  add_where_known(step.hardware_flops, done.hardware_flops);
  if (rank == 0) take_step_of_rank_0(time_unix_ms, done);
}

// All ranks report the same loss.
void AttemptReports::take_step_of_rank_0(int64_t time_unix_ms, const StepDone& done) {
  if (!of_rank_0_.skipped_steps) {
    of_rank_0_.skipped_steps = of_rank_0_.non_finite_steps = 0;
    of_rank_0_.loss_first = done.loss;
    if (const auto started_unix_ms = state(0).started_unix_ms) {
      const double since_start_ms = static_cast<double>(time_unix_ms - *started_unix_ms);
      of_rank_0_.start_up_time_ms = not_negative(since_start_ms - done.step_time_ms);
    }
  }
  of_rank_0_.loss_last = done.loss;
  *of_rank_0_.skipped_steps += done.skipped ? 1 : 0;
  *of_rank_0_.non_finite_steps += done.non_finite ? 1 : 0;
  progress_.step = done.step;
  progress_.loss = done.loss;
  const double before = progress_.step_time_ms.value_or(done.step_time_ms);
  progress_.step_time_ms = before + kRecentStepWeight * (done.step_time_ms - before);
}

AttemptReports::Step& AttemptReports::step_numbered(int64_t step) {
  // Numbers mostly follow each other, so the place is known.
  const int64_t guess = steps_.empty() ? 0 : step - steps_.front().step;
  if (guess >= 0 && guess < std::ssize(steps_)) {
    Step& guessed = steps_[static_cast<size_t>(guess)];
    if (guessed.step == step) return guessed;
  }
  const auto at = std::ranges::lower_bound(steps_, step, {}, &Step::step);
  if (at != steps_.end() && at->step == step) return *at;
  return *steps_.insert(at, Step{.step = step});
}

// All ranks report the same.
void AttemptReports::take(int64_t rank, int64_t, const EvaluationDone& evaluation) {
  progress_.evaluated_step = evaluation.step;
  const bool has_labels = evaluation.token_accuracy.has_value();
  if (rank != 0 || !has_labels) return;
  if (!of_rank_0_.token_accuracy_last) of_rank_0_.validation_loss_first = evaluation.loss;
  of_rank_0_.validation_loss_last = evaluation.loss;
  of_rank_0_.token_accuracy_last = evaluation.token_accuracy;
  include_least(of_rank_0_.validation_loss_best, evaluation.loss);
}

void AttemptReports::take(int64_t rank, int64_t, const CheckpointDone& checkpoint) {
  progress_.saved_step = std::max(progress_.saved_step, checkpoint.step);
  if (rank == 0) checkpoint_times_ms_.push_back(checkpoint.write_time_ms);
}

void AttemptReports::take(int64_t, int64_t time_unix_ms, const DeviceSample& sample) {
  Device& device = devices_[{sample.host, sample.device}];
  if (sample.utilization_percent) {
    device.utilization_percent_sum += *sample.utilization_percent;
    ++device.utilization_count;
  }
  if (!sample.power_watts) return;
  if (device.last_power_watts) {
    const double seconds = static_cast<double>(time_unix_ms - device.last_power_unix_ms) / 1000;
    device.energy_joules = device.energy_joules.value_or(0) +
                           seconds * (*device.last_power_watts + *sample.power_watts) / 2;
  }
  device.last_power_watts = sample.power_watts;
  device.last_power_unix_ms = time_unix_ms;
}

void AttemptReports::take(int64_t rank, int64_t, const RunFinished& finished) {
  state(rank).kind = RankEndKind::kFinished;
  state(rank).reason = what_is_missing(rank, finished.steps);
  at(rank).memory_host_bytes_max = finished.memory_host_bytes_max;
}

void AttemptReports::take(int64_t rank, int64_t, const RunFailed& failed) {
  state(rank).kind = RankEndKind::kFailed;
  state(rank).exit_code = failed.exit_code;
  state(rank).reason = failed.reason;
}

void AttemptReports::take(int64_t rank, int64_t, const RunInterrupted&) {
  state(rank).kind = RankEndKind::kInterrupted;
}

RankSummary AttemptReports::rank_summary(int64_t rank) const {
  const Rank& own = ranks_.at(static_cast<size_t>(rank));
  RankSummary summary = own.largest;
  summary.steps = states_[static_cast<size_t>(rank)].steps;
  std::vector<double> times = own.step_times_ms;
  summary.step_time_ms_median = quantile_after(attempt_.warmup_steps_excluded, times);
  return summary;
}

std::string AttemptReports::what_is_missing(int64_t rank, int64_t finished_steps) const {
  const RankState& own = states_[static_cast<size_t>(rank)];
  const int64_t resumed_from_step = facts(rank).resumed_from_step;
  const int64_t planned = own.started_unix_ms ? facts(rank).steps_planned : finished_steps;
  const int64_t left = planned - resumed_from_step;
  if (left < 0) {
    return fmt::format(
        "nothing was left to do: the run resumed from step {} of {} steps; raise train.steps, or "
        "resume from an earlier checkpoint",
        resumed_from_step, planned);
  }
  if (finished_steps != planned) {
    return fmt::format("finished after {} of {} steps", finished_steps, planned);
  }
  if (own.steps == 0 && resumed_from_step == 0) return "finished without a step";
  if (own.steps == left && (left == 0 || own.last_step == planned)) return "";
  return fmt::format("finished, but reports of {} of its {} steps are missing; run it again",
                     left - own.steps, left);
}

AttemptSummary AttemptReports::summary(bool has_ended) const {
  if (ranks_.empty()) return {};
  AttemptSummary summary = of_rank_0_;
  summarise_steps(summary);
  summarise_ranks(summary, has_ended);
  summarise_devices(summary);
  summarise_cpu_use(summary);
  summarise_accounts(summary);
  if (!checkpoint_times_ms_.empty()) {
    summary.checkpoint_write_time_ms_median = median(checkpoint_times_ms_);
  }
  return summary;
}

void AttemptReports::summarise_steps(AttemptSummary& summary) const {
  // Covers the steps that every rank has done without a suspension. Empty if a step lacks the
  // value.
  const auto of_steps = [&](auto member) {
    std::vector<double> values;
    for (const Step& step : steps_) {
      if (step.rank_count < attempt_.ranks || step.is_suspended) continue;
      const std::optional value = step.*member;
      if (!value) return std::vector<double>();
      values.push_back(static_cast<double>(*value));
    }
    return values;
  };
  const auto median_of = [&](auto member) {
    std::vector<double> values = of_steps(member);
    return quantile_after(attempt_.warmup_steps_excluded, values);
  };
  std::vector<double> times = of_steps(&Step::step_time_ms);
  summary.step_time_ms_median = quantile_after(attempt_.warmup_steps_excluded, times);
  summary.step_time_ms_p25 = quantile_after(attempt_.warmup_steps_excluded, times, 0.25);
  summary.step_time_ms_p75 = quantile_after(attempt_.warmup_steps_excluded, times, 0.75);
  summary.communication_time_ms_median = median_of(&Step::communication_time_ms);
  if (!(summary.step_time_ms_median > 0)) return;
  const double steps_per_second = 1000 / *summary.step_time_ms_median;
  const auto per_second = [&](auto member, double unit = 1) -> std::optional<double> {
    const std::optional<double> of_step = median_of(member);
    return of_step ? std::optional(steps_per_second * *of_step / unit) : std::nullopt;
  };
  summary.steps_per_second = steps_per_second;
  summary.micro_batches_per_second =
      steps_per_second * static_cast<double>(attempt_.gradient_accumulation_steps);
  summary.tokens_per_second = per_second(&Step::tokens);
  summary.unpadded_tokens_per_second = per_second(&Step::unpadded_tokens);
  summary.trained_tokens_per_second = per_second(&Step::label_count);
  const auto ranks = static_cast<double>(attempt_.ranks);
  summary.tokens_per_second_per_rank = *summary.tokens_per_second / ranks;

  const std::optional<double> model_tflops = per_second(&Step::model_flops, 1e12);
  const std::optional<double> hardware_tflops = per_second(&Step::hardware_flops, 1e12);
  if (!model_tflops || !hardware_tflops) return;
  summary.model_tflops_per_second_per_rank = *model_tflops / ranks;
  std::optional<double> peak_tflops = 0;
  for (const Rank& rank : ranks_) add_where_known(peak_tflops, rank.peak_tflops);
  if (!peak_tflops) return;
  summary.mfu_percent = 100 * *model_tflops / *peak_tflops;
  summary.hfu_percent = 100 * *hardware_tflops / *peak_tflops;
}

void AttemptReports::summarise_ranks(AttemptSummary& summary, bool has_ended) const {
  bool all_ended = true;
  std::optional<int64_t> longest_ms;
  for (const RankState& state : states_) {
    include_least(summary.steps, std::optional(state.steps));
    all_ended &= state.kind != RankEndKind::kNone;
    if (!state.started_unix_ms) continue;
    include(longest_ms, not_negative(*state.last_event_unix_ms - *state.started_unix_ms));
  }
  for (const Rank& rank : ranks_) {
    const RankSummary& own = rank.largest;
    include(summary.memory_allocated_bytes_max, own.memory_allocated_bytes_max);
    include(summary.memory_reserved_bytes_max, own.memory_reserved_bytes_max);
    include_least(summary.memory_allocated_bytes_min, own.memory_allocated_bytes_max);
    include_least(summary.memory_reserved_bytes_min, own.memory_reserved_bytes_max);
    include(summary.memory_allocated_bytes_forward_max, own.memory_allocated_bytes_forward);
    include_least(summary.memory_allocated_bytes_forward_min, own.memory_allocated_bytes_forward);
    include(summary.memory_reserved_bytes_forward_max, own.memory_reserved_bytes_forward);
  }
  std::map<std::string, int64_t> host_bytes;
  for (const Rank& rank : ranks_) {
    if (!rank.memory_host_bytes_max) host_bytes.clear();
    if (!rank.memory_host_bytes_max) break;
    host_bytes[rank.facts.host] += *rank.memory_host_bytes_max;
  }
  for (const auto& [host, bytes] : host_bytes) include(summary.memory_node_bytes_max, bytes);
  if (all_ended || has_ended) summary.total_time_ms = longest_ms;
}

void AttemptReports::summarise_devices(AttemptSummary& summary) const {
  std::set<std::pair<std::string, std::string>> own_gpus;
  for (const Rank& rank : ranks_) {
    if (!rank.facts.gpu.empty()) own_gpus.emplace(rank.facts.host, rank.facts.gpu);
  }
  Device gpus;
  Device processors;
  for (const auto& [name, device] : devices_) {
    const bool is_own_gpu = own_gpus.contains(name);
    if (!is_own_gpu && name.second != "cpu") continue;
    Device& sum = is_own_gpu ? gpus : processors;
    sum.utilization_percent_sum += device.utilization_percent_sum;
    sum.utilization_count += device.utilization_count;
    if (is_own_gpu && device.energy_joules) {
      summary.energy_joules = summary.energy_joules.value_or(0) + *device.energy_joules;
    }
  }
  const auto mean = [](const Device& sum) -> std::optional<double> {
    if (sum.utilization_count == 0) return std::nullopt;
    return sum.utilization_percent_sum / static_cast<double>(sum.utilization_count);
  };
  summary.gpu_utilization_percent_mean = mean(gpus);
  summary.cpu_utilization_percent_mean = mean(processors);
}

void AttemptReports::take(int64_t rank, int64_t, const StepAccount& account) {
  at(rank).accounts.emplace(account.step, account);
}

std::vector<std::pair<int64_t, StepAccount>> AttemptReports::accounts_of(const Step& step) const {
  std::vector<std::pair<int64_t, StepAccount>> accounts;
  if (step.is_suspended) return accounts;
  for (int64_t rank = 0; rank < attempt_.ranks; ++rank) {
    const auto& own = ranks_[static_cast<size_t>(rank)].accounts;
    const auto found = own.find(step.step);
    if (found == own.end()) return {};
    accounts.emplace_back(rank, found->second);
  }
  std::ranges::stable_sort(accounts, std::greater(), [](auto& of) { return work_ms(of.second); });
  return accounts;
}

// A whole step is taken, not means of several, because its parts add up.
void AttemptReports::summarise_accounts(AttemptSummary& summary) const {
  std::vector<std::vector<std::pair<int64_t, StepAccount>>> steps;
  for (const Step& step : steps_) {
    if (auto accounts = accounts_of(step); !accounts.empty()) steps.push_back(std::move(accounts));
  }
  if (steps.empty()) return;
  const auto middle = steps.begin() + (std::ssize(steps) - 1) / 2;
  std::ranges::nth_element(steps, middle, {},
                           [](auto& of) { return of.front().second.step_time_ms; });
  const auto& [rank, account] = middle->front();
  for (size_t i = 0; i < kTimeParts; ++i) {
    summary.time_by_part[i] = account.parts.milliseconds[i];
  }
  summary.exposed_all_gather_ms =
      account.parts[TimePart::kAllGatherForward] + account.parts[TimePart::kAllGatherBackward];
  summary.hidden_communication_ms = account.hidden_communication_ms;
  summary.account_rank = rank;
  if (middle->size() == 1) return;
  std::vector<double> others;
  for (const auto& [other, of_other] : std::span(*middle).subspan(1)) {
    others.push_back(work_ms(of_other));
  }
  summary.slowest_rank_extra_ms = work_ms(account) - median(std::move(others));
}

// The kernel counts a CPU's busy time in ticks of 10 ms, which is 2 % of this least time.
constexpr double kLeastMeasuredTimeMs = 500;

// Ranks may share CPUs. Other processes had the busy time of a rank's CPUs, less the time of all
// ranks on these CPUs.
void AttemptReports::summarise_cpu_use(AttemptSummary& summary) const {
  std::map<std::pair<std::string, std::string>, double> own_time_ms;  // by host and CPUs
  for (const Rank& rank : ranks_) {
    if (!rank.cpu_use || !(rank.cpu_use->measured_time_ms >= kLeastMeasuredTimeMs)) return;
    own_time_ms[{rank.facts.host, rank.cpu_use->cpus}] += rank.cpu_use->cpu_time_ms;
  }
  for (const Rank& rank : ranks_) {
    const CpuUse& use = *rank.cpu_use;
    include(summary.cpu_cores_used_max, use.cpu_time_ms / use.measured_time_ms);
    if (use.run_queue_wait_time_ms) {
      include(summary.run_queue_wait_percent,
              100 * *use.run_queue_wait_time_ms / use.measured_time_ms);
    }
    if (!use.cpus_busy_time_ms || use.cpu_count <= 0) continue;
    const double others_ms = *use.cpus_busy_time_ms - own_time_ms[{rank.facts.host, use.cpus}];
    const double capacity_ms = use.measured_time_ms * static_cast<double>(use.cpu_count);
    include(summary.cpu_time_others_percent, std::max(0.0, 100 * others_ms / capacity_ms));
  }
}

}  // namespace fsdp
