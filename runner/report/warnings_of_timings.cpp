#include <algorithm>

#include "runner/report/names.h"
#include "runner/report/number_text.h"
#include "runner/report/warning_checks.h"
#include "runner/store/quantile.h"

namespace fsdp {
namespace {

// The interquartile range of step times may be this part of the median before it is called noise.
// GPUs do the same work in the same time, to a few percent. On CPUs ranks share cores with each
// other and with the system: the lab's four ranks on two cores were seen at 4 to 26 %.
constexpr double kNoiseOnGpu = 0.2;
constexpr double kNoiseOnCpu = 0.5;

// Quartiles of fewer steps are those of two or three numbers. The lab's shortest row has 4 after
// its warm-up.
constexpr int64_t kLeastMeasuredSteps = 4;

// Of finished repeats: whether the middle half of their step times lies further apart than noise.
bool repeats_vary(const Series& series) {
  std::vector<double> times = figures_of(series, &AttemptSummary::step_time_ms_median);
  if (series.finished_count < 2 || times.size() < 2) return false;
  const double allowed = series.median.device == DeviceKind::kCuda ? kNoiseOnGpu : kNoiseOnCpu;
  return quantile(times, 0.75) - quantile(times, 0.25) > allowed * quantile(times, 0.5);
}

}  // namespace

std::optional<std::string> few_steps(Rows rows) {
  Runs runs = finished_runs(rows);
  std::erase_if(runs, [](auto* run) {
    const double measured = static_cast<double>(run->steps.value_or(0)) -
                            static_cast<double>(run->warmup_steps_excluded);
    return !run->step_time_ms_median || measured >= kLeastMeasuredSteps;
  });
  if (runs.empty()) return std::nullopt;
  return "step times are of fewer than " + std::to_string(kLeastMeasuredSteps) +
         " steps after the warm-up: " + points_of(runs) +
         "; train longer (train.steps, train.sequences)";
}

std::optional<std::string> noisy_step_times(Rows rows) {
  Runs runs = finished_runs(rows);
  std::erase_if(runs, [](auto* run) {
    if (!run->step_time_ms_p25 || !run->step_time_ms_p75) return true;
    const double allowed = run->device == DeviceKind::kCuda ? kNoiseOnGpu : kNoiseOnCpu;
    const double spread = *run->step_time_ms_p75 - *run->step_time_ms_p25;
    return !(spread > allowed * run->step_time_ms_median.value_or(0));
  });
  if (runs.empty()) return std::nullopt;
  return "step times vary a lot within a run (interquartile range above 20 % of the median on a "
         "GPU, 50 % on a CPU): " +
         points_of(runs) + "; end what else runs there, and use more steps or repeats: 5";
}

std::optional<std::string> other_processes(Rows rows) {
  Runs runs = started_runs(rows);
  std::erase_if(runs, [](auto* run) { return run->other_processes.value_or(0) == 0; });
  if (runs.empty()) return std::nullopt;
  return "processes of others were on a GPU when these began: " + points_of(runs) +
         "; end them (nvidia-smi shows them) or take other GPUs with --gpus, then --rerun";
}

std::optional<std::string> resumed(Rows rows) {
  Runs runs = started_runs(rows);
  std::erase_if(runs, [](auto* run) { return run->resumed_from_step.value_or(0) == 0; });
  if (runs.empty()) return std::nullopt;
  std::vector<std::string> names;
  for (const ComparisonRow* run : runs) {
    names.push_back(run->point + " from step " + std::to_string(*run->resumed_from_step));
  }
  return "times and memory are of the steps since a checkpoint: " + joined_names(names) +
         "; --rerun trains from the beginning";
}

std::optional<std::string> repeats_differ(Rows rows) {
  std::vector<std::string> names;
  for (const Series* series : rows) {
    const bool mixed = series->finished_count > 0 && series->finished_count < series->runs.size();
    if (mixed) {
      names.push_back(series->median.point + " (" + series->status_text() + ")");
    } else if (repeats_vary(*series)) {
      names.push_back(series->median.point + " (step times)");
    }
  }
  if (names.empty()) return std::nullopt;
  return "repeats of one point differ: " + joined_names(names) +
         "; look at them one by one with --per-run, and run those that failed again";
}

}  // namespace fsdp
