#include "runner/report/warnings.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>

#include "runner/report/figures.h"
#include "runner/report/names.h"
#include "runner/store/quantile.h"

namespace fsdp {
namespace {

using Rows = std::span<const Series* const>;
using Runs = std::vector<const ComparisonRow*>;

// The interquartile range of step times may be this part of the median before it is called noise.
// GPUs do the same work in the same time, to a few percent. On CPUs ranks share cores with each
// other and with the system: the lab's four ranks on two cores were seen at 4 to 26 %.
constexpr double kNoiseOnGpu = 0.2;
constexpr double kNoiseOnCpu = 0.5;

// Quartiles of fewer steps are those of two or three numbers. The lab's shortest row has 4 after
// its warm-up.
constexpr int64_t kLeastMeasuredSteps = 4;

// Relative differences of losses that sharding may make: sums are taken in another order.
constexpr double kLossToleranceFp32 = 1e-4;
constexpr double kLossToleranceOthers = 2e-2;

// Runs that began, of all rows.
Runs started_runs(Rows rows) {
  Runs runs;
  for (const Series* series : rows) {
    for (const ComparisonRow* run : series->runs) {
      if (run->attempt) runs.push_back(run);
    }
  }
  return runs;
}

Runs finished_runs(Rows rows) {
  Runs runs = started_runs(rows);
  std::erase_if(runs, [](auto* run) { return run->status != RunStatus::kFinished; });
  return runs;
}

std::string points_of(const Runs& runs) {
  std::vector<std::string> names;
  for (const ComparisonRow* run : runs) names.push_back(run->point);
  return joined_names(names);
}

// "1 GPU: a1b2; 4xDDP, 4xFSDP: c3d4" when there are several values; runs without one do not count.
std::optional<std::string> different(
    const Runs& runs, const std::function<std::string(const ComparisonRow&)>& value_of) {
  constexpr size_t kMostShown = 4;
  std::map<std::string, Runs> by_value;
  std::vector<std::string> order;
  for (const ComparisonRow* run : runs) {
    const std::string value = value_of(*run);
    if (value.empty()) continue;
    Runs& same = by_value[value];
    if (same.empty()) order.push_back(value);
    same.push_back(run);
  }
  if (order.size() < 2) return std::nullopt;
  std::string text;
  for (size_t i = 0; i < std::min(order.size(), kMostShown); ++i) {
    if (i > 0) text += "; ";
    text += points_of(by_value[order[i]]) + ": " + order[i];
  }
  if (order.size() > kMostShown) {
    text += "; and " + std::to_string(order.size() - kMostShown) + " others";
  }
  return text;
}

std::string short_digest(const std::string& digest) { return digest.substr(0, 8); }

std::optional<std::string> different_commit(Rows rows) {
  const auto what = different(started_runs(rows), [](const ComparisonRow& run) {
    if (run.git_commit.empty()) return std::string();
    return short_digest(run.git_commit) + (run.git_dirty.value_or(false) ? " with changes" : "");
  });
  if (!what) return std::nullopt;
  return "rows were run from different commits (" + *what +
         "); run them again from one, with --rerun";
}

std::optional<std::string> different_trainer(Rows rows) {
  const auto what = different(started_runs(rows), [](const ComparisonRow& run) {
    return short_digest(run.trainer_digest);
  });
  if (!what) return std::nullopt;
  return "rows were run by different trainers, by their binaries' digests (" + *what +
         "); run them again with one build, with --rerun";
}

std::optional<std::string> different_versions(Rows rows) {
  const auto what = different(started_runs(rows), [](const ComparisonRow& run) {
    if (run.torch_version.empty()) return std::string();
    std::string text = "torch " + run.torch_version;
    if (!run.cuda_version.empty()) text += ", CUDA " + run.cuda_version;
    if (!run.driver_version.empty()) text += ", driver " + run.driver_version;
    return text;
  });
  if (!what) return std::nullopt;
  return "rows were run with different libraries (" + *what +
         "); run them again with one installation, with --rerun";
}

std::optional<std::string> different_device(Rows rows) {
  const auto what =
      different(started_runs(rows), [](const ComparisonRow& run) { return run.device_name; });
  if (!what) return std::nullopt;
  return "rows were run on different devices (" + *what +
         "); run them again on one kind, with --rerun, or tell them apart with --group device_name";
}

std::optional<std::string> different_data(Rows rows) {
  const auto what = different(
      started_runs(rows), [](const ComparisonRow& run) { return short_digest(run.data_digest); });
  if (!what) return std::nullopt;
  return "rows read different input files, by the digests of their contents (" + *what +
         "); give them one data set and model, or tell them apart with --group data_digest";
}

// Only where an experiment compares losses; where it compares throughput these are columns.
Runs runs_compared_by_loss(Rows rows) {
  Runs runs = started_runs(rows);
  std::erase_if(runs, [](auto* run) { return run->compare == "throughput"; });
  return runs;
}

constexpr const char* kCompareRemedy =
    ", or write compare: throughput at the top of the experiment if that is its purpose";

std::optional<std::string> different_total_batch(Rows rows) {
  const auto what = different(runs_compared_by_loss(rows), [](const ComparisonRow& run) {
    return std::to_string(run.total_batch);
  });
  if (!what) return std::nullopt;
  return "losses are of different total batches (" + *what + "); give all rows one batch.total" +
         kCompareRemedy;
}

std::optional<std::string> different_steps(Rows rows) {
  const auto what = different(runs_compared_by_loss(rows), [](const ComparisonRow& run) {
    return run.steps_planned ? std::to_string(*run.steps_planned) : "";
  });
  if (!what) return std::nullopt;
  return "losses are after different numbers of steps (" + *what +
         "); give all rows the same train.steps" + kCompareRemedy;
}

bool agree(double one, double other, double tolerance) {
  return std::abs(one - other) <= tolerance * std::max(std::abs(one), std::abs(other));
}

// The text for runs whose losses must be equal, when the least and the greatest are not.
std::optional<std::string> disagreement(const Runs& runs,
                                        std::optional<double> AttemptSummary::*loss,
                                        const std::string& which) {
  const auto [least, greatest] =
      std::ranges::minmax(runs, {}, [&](auto* run) { return *(run->*loss); });
  const double tolerance = least->precision == "fp32" ? kLossToleranceFp32 : kLossToleranceOthers;
  if (agree(*(least->*loss), *(greatest->*loss), tolerance)) return std::nullopt;
  char losses[64];
  std::snprintf(losses, sizeof(losses), " %.6g, ", *(least->*loss));
  std::string text = least->point + losses + greatest->point;
  std::snprintf(losses, sizeof(losses), " %.6g", *(greatest->*loss));
  return text + losses + " (" + which + " step)";
}

std::optional<std::string> losses_disagree(Rows rows) {
  std::map<std::string, Runs> must_be_equal;
  for (const ComparisonRow* run : finished_runs(rows)) {
    const bool comparable =
        run->loss_last && run->loss_first && run->resumed_from_step.value_or(0) == 0;
    if (comparable && !run->loss_digest.empty()) must_be_equal[run->loss_digest].push_back(run);
  }
  std::vector<std::string> found;
  for (const auto& [digest, runs] : must_be_equal) {
    auto text = disagreement(runs, &AttemptSummary::loss_first, "first");
    if (!text) text = disagreement(runs, &AttemptSummary::loss_last, "last");
    if (text) found.push_back(*text);
  }
  if (found.empty()) return std::nullopt;
  return "losses do not agree although model, data, seed, total batch, steps and precision are "
         "equal: " +
         joined_names(found) +
         "; allowed are differences of 0.0001 in fp32 and of 0.02 in other precisions, relative. "
         "Run these again with --rerun; if it stays, one of them computes something else: look at "
         "`fsdp-run diff` of the two";
}

std::optional<std::string> few_steps(Rows rows) {
  Runs runs = finished_runs(rows);
  std::erase_if(runs, [](auto* run) {
    return !run->step_time_ms_median ||
           run->steps.value_or(0) - run->warmup_steps_excluded >= kLeastMeasuredSteps;
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
    return *run->step_time_ms_p75 - *run->step_time_ms_p25 <= allowed * *run->step_time_ms_median;
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
  return "figures are of the steps since a checkpoint: " + joined_names(names) +
         "; --rerun trains from the beginning";
}

// Of finished repeats: whether the middle half of their step times lies further apart than noise.
bool repeats_vary(const Series& series) {
  std::vector<double> times = figures_of(series, &AttemptSummary::step_time_ms_median);
  if (series.finished_count < 2 || times.size() < 2) return false;
  const double allowed = series.median.device == DeviceKind::kCuda ? kNoiseOnGpu : kNoiseOnCpu;
  return quantile(times, 0.75) - quantile(times, 0.25) > allowed * quantile(times, 0.5);
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

struct Check {
  const char* name;
  std::optional<std::string> (*check)(Rows rows);
};

constexpr std::array kChecks{
    Check{"different_commit", different_commit},
    Check{"different_trainer", different_trainer},
    Check{"different_versions", different_versions},
    Check{"different_device", different_device},
    Check{"different_data", different_data},
    Check{"different_total_batch", different_total_batch},
    Check{"different_steps", different_steps},
    Check{"losses_disagree", losses_disagree},
    Check{"few_steps", few_steps},
    Check{"noisy_step_times", noisy_step_times},
    Check{"other_processes", other_processes},
    Check{"resumed", resumed},
    Check{"repeats_differ", repeats_differ},
};

}  // namespace

std::vector<Warning> warnings_for(std::span<const Series* const> rows) {
  std::vector<Warning> warnings;
  for (const Check& check : kChecks) {
    if (auto text = check.check(rows)) {
      warnings.push_back({.name = check.name, .text = std::move(*text)});
    }
  }
  return warnings;
}

}  // namespace fsdp
