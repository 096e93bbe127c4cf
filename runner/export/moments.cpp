#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text/utf8.h"
#include "runner/export/exported_run.h"

namespace fsdp {
namespace {

void add_if_known(Moment& moment, const std::string& name, std::optional<double> value) {
  if (value && std::isfinite(*value)) moment.figures.emplace_back(name, *value);
}

// `of_ranks` has the step of each rank that did it. Loss and learning rate are equal on all ranks.
Moment moment_of_step(const std::vector<const Recorded<StepDone>*>& of_ranks) {
  const Recorded<StepDone>& first = *of_ranks.front();
  const StepDone* slowest = &first.body;
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  for (const Recorded<StepDone>* rank : of_ranks) {
    if (rank->body.step_time_ms > slowest->step_time_ms) slowest = &rank->body;
    allocated_bytes = std::max(allocated_bytes, rank->body.memory_allocated_bytes_max);
    reserved_bytes = std::max(reserved_bytes, rank->body.memory_reserved_bytes_max);
  }
  Moment moment{.step = first.body.step, .time_unix_ms = first.time_unix_ms};
  add_if_known(moment, "train/loss", first.body.loss);
  add_if_known(moment, "train/learning_rate", first.body.learning_rate);
  add_if_known(moment, "train/gradient_norm", first.body.gradient_norm);
  add_if_known(moment, "time/step_time_ms", slowest->step_time_ms);
  add_if_known(moment, "time/communication_time_ms", slowest->communication_time_ms);
  add_if_known(moment, "memory/allocated_bytes_max", allocated_bytes);
  add_if_known(moment, "memory/reserved_bytes_max", reserved_bytes);
  return moment;
}

std::vector<Moment> moments_of_steps(const std::vector<Recorded<StepDone>>& steps,
                                     int64_t last_step) {
  std::map<int64_t, std::vector<const Recorded<StepDone>*>> of_ranks;
  for (const Recorded<StepDone>& step : steps) {
    if (step.body.step <= last_step) of_ranks[step.body.step].push_back(&step);
  }
  std::vector<Moment> moments;
  for (const auto& [step, ranks] : of_ranks) moments.push_back(moment_of_step(ranks));
  return moments;
}

void add_evaluations(std::vector<Moment>& moments,
                     const std::vector<Recorded<EvaluationDone>>& evaluations, int64_t last_step) {
  for (const Recorded<EvaluationDone>& evaluation : evaluations) {
    // All ranks report the same values.
    if (evaluation.rank != 0 || evaluation.body.step > last_step) continue;
    Moment moment{.step = evaluation.body.step, .time_unix_ms = evaluation.time_unix_ms};
    add_if_known(moment, "validation/loss", evaluation.body.loss);
    add_if_known(moment, "validation/token_accuracy", evaluation.body.token_accuracy);
    moments.push_back(std::move(moment));
  }
}

int64_t step_done_by(const std::vector<Moment>& steps, int64_t time_unix_ms) {
  const auto later = std::ranges::upper_bound(steps, time_unix_ms, {}, &Moment::time_unix_ms);
  return later == steps.begin() ? 0 : std::prev(later)->step;
}

// If there are several hosts, the names of their devices begin with the host's name.
void add_device_samples(std::vector<Moment>& moments, const std::vector<Moment>& steps,
                        const std::vector<Recorded<DeviceSample>>& samples) {
  std::set<std::string> hosts;
  for (const Recorded<DeviceSample>& sample : samples) hosts.insert(sample.body.host);
  for (const Recorded<DeviceSample>& sample : samples) {
    const DeviceSample& device = sample.body;
    const std::string place = hosts.size() > 1 ? device.host + '/' : "";
    const std::string name = "device/" + visible_line(place + device.device) + '/';
    Moment moment{.step = step_done_by(steps, sample.time_unix_ms),
                  .time_unix_ms = sample.time_unix_ms};
    add_if_known(moment, name + "utilization_percent", device.utilization_percent);
    add_if_known(moment, name + "memory_used_bytes", device.memory_used_bytes);
    add_if_known(moment, name + "power_watts", device.power_watts);
    add_if_known(moment, name + "temperature_celsius", device.temperature_celsius);
    moments.push_back(std::move(moment));
  }
}

}  // namespace

std::vector<Moment> moments_of(const Store& store, int64_t run_id, int attempt) {
  std::vector<Moment> moments;
  for (const Stretch& stretch : store.stretches(run_id, attempt)) {
    const std::vector<Moment> steps =
        moments_of_steps(store.events<StepDone>(run_id, stretch.attempt), stretch.last_step);
    moments.insert(moments.end(), steps.begin(), steps.end());
    add_evaluations(moments, store.events<EvaluationDone>(run_id, stretch.attempt),
                    stretch.last_step);
    add_device_samples(moments, steps, store.events<DeviceSample>(run_id, stretch.attempt));
  }
  std::erase_if(moments, [](const Moment& moment) { return moment.figures.empty(); });
  std::ranges::stable_sort(moments, {}, &Moment::time_unix_ms);
  return moments;
}

}  // namespace fsdp
