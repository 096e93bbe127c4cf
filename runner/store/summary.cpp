#include "runner/store/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace fsdp {
namespace {

// A step over all ranks.
struct GlobalStep {
  double step_time_ms = 0;
  std::optional<double> communication_time_ms;  // of the slowest rank
  int64_t tokens = 0;
  size_t rank_count = 0;
};

// The value below which `fraction` of the sorted, not empty `values` lie.
double quantile(const std::vector<double>& values, double fraction) {
  const double position = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - static_cast<double>(below));
}

// Of values in the order of their steps: those after the warm-up, or all when no more were done.
std::vector<double> sorted_without_warmup(std::vector<double> values,
                                          int64_t warmup_steps_excluded) {
  if (std::ssize(values) > warmup_steps_excluded) {
    values.erase(values.begin(), values.begin() + warmup_steps_excluded);
  }
  std::ranges::sort(values);
  return values;
}

std::map<int64_t, GlobalStep> steps_of_all_ranks(const std::vector<MeasuredRank>& ranks) {
  std::map<int64_t, GlobalStep> steps;
  for (const MeasuredRank& rank : ranks) {
    for (const MeasuredStep& measured : rank.steps) {
      GlobalStep& global = steps[measured.done.step];
      if (global.rank_count == 0 || measured.done.step_time_ms > global.step_time_ms) {
        global.step_time_ms = measured.done.step_time_ms;
        global.communication_time_ms = measured.done.communication_time_ms;
      }
      global.tokens = measured.done.tokens;
      ++global.rank_count;
    }
  }
  std::erase_if(steps, [&](const auto& entry) { return entry.second.rank_count < ranks.size(); });
  return steps;
}

void add_step_times(AttemptSummary& summary, const MeasuredAttempt& attempt) {
  const std::map<int64_t, GlobalStep> steps = steps_of_all_ranks(attempt.ranks);
  if (steps.empty()) return;
  std::vector<double> times;
  std::vector<double> communication_times;
  std::vector<double> tokens;
  for (const auto& [number, step] : steps) {
    times.push_back(step.step_time_ms);
    if (step.communication_time_ms) communication_times.push_back(*step.communication_time_ms);
    tokens.push_back(static_cast<double>(step.tokens));
  }
  times = sorted_without_warmup(std::move(times), attempt.warmup_steps_excluded);
  tokens = sorted_without_warmup(std::move(tokens), attempt.warmup_steps_excluded);
  const double median = quantile(times, 0.5);
  summary.step_time_ms_median = median;
  summary.step_time_ms_p25 = quantile(times, 0.25);
  summary.step_time_ms_p75 = quantile(times, 0.75);
  if (communication_times.size() == steps.size()) {
    summary.communication_time_ms_median = quantile(
        sorted_without_warmup(std::move(communication_times), attempt.warmup_steps_excluded), 0.5);
  }
  if (median <= 0) return;
  summary.steps_per_second = 1000 / median;
  summary.micro_batches_per_second =
      *summary.steps_per_second * static_cast<double>(attempt.gradient_accumulation_steps);
  summary.tokens_per_second = *summary.steps_per_second * quantile(tokens, 0.5);
}

void include(std::optional<int64_t>& largest, std::optional<int64_t> value) {
  largest = std::max(largest, value);
}

template <typename T>
void include_least(std::optional<T>& least, std::optional<T> value) {
  if (value && (!least || *value < *least)) least = value;
}

void add_evaluations(AttemptSummary& summary, const std::vector<EvaluationDone>& evaluations) {
  if (evaluations.empty()) return;
  summary.validation_loss_first = evaluations.front().loss;
  summary.validation_loss_last = evaluations.back().loss;
  summary.token_accuracy_last = evaluations.back().token_accuracy;
  for (const EvaluationDone& evaluation : evaluations) {
    include_least(summary.validation_loss_best, evaluation.loss);
  }
}

void add_checkpoints(AttemptSummary& summary, const std::vector<CheckpointDone>& checkpoints) {
  if (checkpoints.empty()) return;
  std::vector<double> times;
  for (const CheckpointDone& checkpoint : checkpoints) times.push_back(checkpoint.write_time_ms);
  std::ranges::sort(times);
  summary.checkpoint_write_time_ms_median = quantile(times, 0.5);
}

std::optional<double> mean(double sum, int64_t count) {
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

void add_samples(AttemptSummary& summary, const MeasuredAttempt& attempt) {
  using Device = std::pair<std::string_view, std::string_view>;  // host, device
  std::set<Device> own_gpus;
  for (const MeasuredRank& rank : attempt.ranks) {
    if (!rank.gpu.empty()) own_gpus.emplace(rank.host, rank.gpu);
  }
  std::map<Device, const MeasuredSample*> last_with_power;
  double utilization_percent[2] = {0, 0};
  int64_t utilization_count[2] = {0, 0};
  for (const MeasuredSample& sample : attempt.samples) {
    const Device device(sample.host, sample.device);
    const bool is_gpu = own_gpus.contains(device);
    if (!is_gpu && sample.device != "cpu") continue;
    if (sample.utilization_percent) {
      utilization_percent[is_gpu] += *sample.utilization_percent;
      ++utilization_count[is_gpu];
    }
    if (!is_gpu || !sample.power_watts) continue;
    const MeasuredSample*& last = last_with_power[device];
    if (last) {
      const double seconds = static_cast<double>(sample.time_unix_ms - last->time_unix_ms) / 1000;
      summary.energy_joules = summary.energy_joules.value_or(0) +
                              seconds * (*last->power_watts + *sample.power_watts) / 2;
    }
    last = &sample;
  }
  summary.cpu_utilization_percent_mean = mean(utilization_percent[0], utilization_count[0]);
  summary.gpu_utilization_percent_mean = mean(utilization_percent[1], utilization_count[1]);
}

}  // namespace

RankSummary summarise(const MeasuredRank& rank, int64_t warmup_steps_excluded) {
  RankSummary summary;
  summary.steps = std::ssize(rank.steps);
  if (rank.steps.empty()) return summary;
  std::vector<double> times;
  for (const auto& [time, done] : rank.steps) {
    times.push_back(done.step_time_ms);
    include(summary.memory_allocated_bytes_forward, done.memory_allocated_bytes_forward);
    include(summary.memory_reserved_bytes_forward, done.memory_reserved_bytes_forward);
    include(summary.memory_allocated_bytes_max, done.memory_allocated_bytes_max);
    include(summary.memory_reserved_bytes_max, done.memory_reserved_bytes_max);
  }
  summary.step_time_ms_median =
      quantile(sorted_without_warmup(std::move(times), warmup_steps_excluded), 0.5);
  return summary;
}

AttemptSummary summarise(const MeasuredAttempt& attempt) {
  AttemptSummary summary;
  if (attempt.ranks.empty()) return summary;
  add_step_times(summary, attempt);
  add_evaluations(summary, attempt.evaluations);
  add_checkpoints(summary, attempt.checkpoints);
  add_samples(summary, attempt);

  bool all_ended = true;
  std::optional<int64_t> last_end;
  for (const MeasuredRank& rank : attempt.ranks) {
    const RankSummary own = summarise(rank, attempt.warmup_steps_excluded);
    include_least(summary.steps, own.steps);
    include(summary.memory_allocated_bytes_max, own.memory_allocated_bytes_max);
    include(summary.memory_reserved_bytes_max, own.memory_reserved_bytes_max);
    include_least(summary.memory_allocated_bytes_min, own.memory_allocated_bytes_max);
    include_least(summary.memory_reserved_bytes_min, own.memory_reserved_bytes_max);
    include(summary.memory_allocated_bytes_forward_max, own.memory_allocated_bytes_forward);
    include_least(summary.memory_allocated_bytes_forward_min, own.memory_allocated_bytes_forward);
    include(summary.memory_reserved_bytes_forward_max, own.memory_reserved_bytes_forward);
    all_ended = all_ended && rank.ended_unix_ms;
    include(last_end, rank.ended_unix_ms);
  }
  if (!all_ended) last_end = attempt.ended_unix_ms;
  if (last_end) summary.total_time_ms = *last_end - attempt.started_unix_ms;

  if (const std::vector<MeasuredStep>& rank0 = attempt.ranks.front().steps; !rank0.empty()) {
    summary.loss_first = rank0.front().done.loss;
    summary.loss_last = rank0.back().done.loss;
    summary.skipped_steps =
        std::ranges::count_if(rank0, [](auto& step) { return step.done.skipped; });
    summary.non_finite_steps =
        std::ranges::count_if(rank0, [](auto& step) { return step.done.non_finite; });
    summary.start_up_time_ms =
        static_cast<double>(rank0.front().time_unix_ms - attempt.started_unix_ms) -
        rank0.front().done.step_time_ms;
  }
  return summary;
}

}  // namespace fsdp
