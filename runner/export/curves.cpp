#include "runner/export/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "contract/text/utf8.h"

namespace fsdp {
namespace {

// An attempt that a run's curve is made of, and the last of its steps that counts.
struct Stretch {
  int attempt = 0;
  int64_t last_step = std::numeric_limits<int64_t>::max();
};

// The attempt that came nearest to `step`, the newest of several that are as near; 0: none. One
// that stopped before the step did not write its checkpoint, however new it is.
int attempt_that_reached(int64_t step, const Store& store, int64_t run_id, int newest) {
  int nearest = 0;
  int64_t reached = 0;
  for (int attempt = newest; attempt > 0 && reached < step; --attempt) {
    const std::vector<RankEnd> ranks = store.rank_ends(run_id, attempt);
    if (ranks.empty() || ranks.front().last_step <= reached) continue;
    nearest = attempt;
    reached = ranks.front().last_step;
  }
  return nearest;
}

// The newest first.
std::vector<Stretch> stretches(const Store& store, int64_t run_id, int attempt) {
  std::vector<Stretch> found;
  int64_t last_step = std::numeric_limits<int64_t>::max();
  while (attempt > 0) {
    found.push_back({attempt, last_step});
    const std::vector<RunStarted> ranks = store.rank_facts(run_id, attempt);
    if (!ranks.empty()) last_step = std::min(last_step, ranks.front().resumed_from_step);
    attempt = last_step > 0 ? attempt_that_reached(last_step, store, run_id, attempt - 1) : 0;
  }
  return found;
}

void add_if_known(CurvePoint& point, const std::string& name, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) point.figures.emplace_back(name, *value);
}

void add_if_known(CurvePoint& point, const std::string& name, const std::optional<int64_t>& value) {
  if (value) point.figures.emplace_back(name, static_cast<double>(*value));
}

// `of_ranks` is one step of each rank that did it; loss and learning rate are the same on all.
CurvePoint point_of_step(const std::vector<const Recorded<StepDone>*>& of_ranks) {
  const Recorded<StepDone>& first = *of_ranks.front();
  const StepDone* slowest = &first.body;
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  for (const Recorded<StepDone>* rank : of_ranks) {
    if (rank->body.step_time_ms > slowest->step_time_ms) slowest = &rank->body;
    allocated_bytes = std::max(allocated_bytes, rank->body.memory_allocated_bytes_max);
    reserved_bytes = std::max(reserved_bytes, rank->body.memory_reserved_bytes_max);
  }
  CurvePoint point{.step = first.body.step, .time_unix_ms = first.time_unix_ms, .figures = {}};
  add_if_known(point, "train/loss", first.body.loss);
  add_if_known(point, "train/learning_rate", std::optional(first.body.learning_rate));
  add_if_known(point, "train/gradient_norm", first.body.gradient_norm);
  add_if_known(point, "time/step_time_ms", std::optional(slowest->step_time_ms));
  add_if_known(point, "time/communication_time_ms", slowest->communication_time_ms);
  add_if_known(point, "memory/allocated_bytes_max", std::optional(allocated_bytes));
  add_if_known(point, "memory/reserved_bytes_max", std::optional(reserved_bytes));
  return point;
}

std::vector<CurvePoint> points_of_steps(const std::vector<Recorded<StepDone>>& steps,
                                        int64_t last_step) {
  std::map<int64_t, std::vector<const Recorded<StepDone>*>> of_ranks;
  for (const Recorded<StepDone>& step : steps) {
    if (step.body.step <= last_step) of_ranks[step.body.step].push_back(&step);
  }
  std::vector<CurvePoint> points;
  for (const auto& [step, ranks] : of_ranks) points.push_back(point_of_step(ranks));
  return points;
}

void add_evaluations(std::vector<CurvePoint>& points, const Store& store, int64_t run_id,
                     const Stretch& stretch) {
  for (const Recorded<EvaluationDone>& evaluation : store.evaluations(run_id, stretch.attempt)) {
    // Every rank reports the same.
    if (evaluation.rank != 0 || evaluation.body.step > stretch.last_step) continue;
    CurvePoint point{
        .step = evaluation.body.step, .time_unix_ms = evaluation.time_unix_ms, .figures = {}};
    add_if_known(point, "validation/loss", evaluation.body.loss);
    add_if_known(point, "validation/token_accuracy", evaluation.body.token_accuracy);
    points.push_back(std::move(point));
  }
}

int64_t step_done_by(const std::vector<CurvePoint>& steps, int64_t time_unix_ms) {
  const auto later = std::ranges::upper_bound(steps, time_unix_ms, {}, &CurvePoint::time_unix_ms);
  return later == steps.begin() ? 0 : std::prev(later)->step;
}

// Devices of several hosts are told apart by the host's name.
void add_device_samples(std::vector<CurvePoint>& points, const std::vector<CurvePoint>& steps,
                        const std::vector<Recorded<DeviceSample>>& samples) {
  std::set<std::string> hosts;
  for (const Recorded<DeviceSample>& sample : samples) hosts.insert(sample.body.host);
  for (const Recorded<DeviceSample>& sample : samples) {
    const DeviceSample& device = sample.body;
    const std::string name =
        "device/" +
        visible_line((hosts.size() > 1 ? device.host + '/' : std::string()) + device.device) + '/';
    CurvePoint point{.step = step_done_by(steps, sample.time_unix_ms),
                     .time_unix_ms = sample.time_unix_ms,
                     .figures = {}};
    add_if_known(point, name + "utilization_percent", device.utilization_percent);
    add_if_known(point, name + "memory_used_bytes", device.memory_used_bytes);
    add_if_known(point, name + "power_watts", device.power_watts);
    add_if_known(point, name + "temperature_celsius", device.temperature_celsius);
    points.push_back(std::move(point));
  }
}

}  // namespace

std::vector<CurvePoint> curves(const Store& store, int64_t run_id, int attempt) {
  std::vector<CurvePoint> points;
  for (const Stretch& stretch : stretches(store, run_id, attempt)) {
    const std::vector<CurvePoint> steps =
        points_of_steps(store.steps(run_id, stretch.attempt), stretch.last_step);
    points.insert(points.end(), steps.begin(), steps.end());
    add_evaluations(points, store, run_id, stretch);
    add_device_samples(points, steps, store.device_samples(run_id, stretch.attempt));
  }
  std::erase_if(points, [](const CurvePoint& point) { return point.figures.empty(); });
  std::ranges::stable_sort(points, {}, &CurvePoint::time_unix_ms);
  return points;
}

}  // namespace fsdp
