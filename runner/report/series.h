#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/report/scaling.h"
#include "runner/report/statistics.h"
#include "runner/store/comparison.h"

// Groups the repeats of one point.
namespace fsdp {

// The runs of one series of an experiment. After put_ratios(), also their ratios to the baseline.
struct Series {
  // Every figure is the median over finished runs that measured it, or over all runs if none
  // finished. Other members are the first run's, except that `point` is the series' name.
  ComparisonRow median;
  std::vector<const ComparisonRow*> runs;
  // The point without the first words that all series of the experiment share, such as the
  // experiment's name.
  std::string name{};
  size_t finished_count = 0;

  // Series with the same experiment and group compare with the same baseline.
  std::string group{};
  const Series* baseline = nullptr;  // null: none of them has finished
  std::optional<Ratio> tokens_per_second_ratio{};
  std::optional<Ratio> step_time_ratio{};
  std::optional<Scaling> scaling{};  // set by put_scaling()

  bool has(const ComparisonRow* run) const;
  // Returns the run's point without the shared words.
  std::string name_of_run(const ComparisonRow& run) const;
  // "finished"; if the repeats differ, "4 finished, 1 failed".
  std::string status_text() const;
};

// Rows that are compared with each other.
using Rows = std::span<const Series* const>;
using SeriesRows = std::vector<const Series*>;
using Runs = std::vector<const ComparisonRow*>;

// Returns the run's series, or its point if it has none.
const std::string& series_name(const ComparisonRow& run);

// Returns the series in the order of their first runs. A run without a series becomes a series of
// its own. `runs` outlive the result.
std::deque<Series> series_of(std::span<const ComparisonRow> runs);

// Returns the figures of a series for ratios: those of finished runs, or of all if none finished.
std::vector<double> figures_of(const Series& series, std::optional<double> AttemptSummary::*figure);

// Chooses the baseline of each group of an experiment. It is the group's series called `name`, else
// another group's series called `name`. Without one it is the group's first series with a finished
// run. `name` may be the beginning of a series' name up to a space: a point before a sweep's
// additions. Throws ConfigError (place: --baseline) if no experiment has a series called so.
void put_baselines(std::deque<Series>& all, const std::string& name);

// Sets the ratios to the baseline of series with a finished run.
void put_ratios(std::deque<Series>& all);

}  // namespace fsdp
