#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/report/scaling.h"
#include "runner/report/statistics.h"
#include "runner/store/comparison.h"

// Repeats of one point, taken together.
namespace fsdp {

// The runs of one series of an experiment and, when `put_ratios` was called, what they compare
// with.
struct Series {
  // Every figure is the median over the runs that finished and measured it; where none finished,
  // over all. What is no figure is the first run's; `point` is the series' name.
  ComparisonRow median;
  std::vector<const ComparisonRow*> runs;
  // The point without the words that those of all series of the experiment begin with, such as the
  // experiment's name where it has no points.
  std::string name{};
  size_t finished_count = 0;

  // Series with the same experiment and group compare with the same baseline.
  std::string group{};
  const Series* baseline = nullptr;  // null: none has finished
  std::optional<Ratio> tokens_per_second_ratio{};
  std::optional<Ratio> step_time_ratio{};
  std::optional<Scaling> scaling{};  // when `put_scaling` was called

  bool has(const ComparisonRow* run) const;
  // The run's point without these words.
  std::string name_of_run(const ComparisonRow& run) const;
  // "finished"; where the repeats differ, "4 finished, 1 failed".
  std::string status_text() const;
};

// Rows that are compared with each other.
using Rows = std::span<const Series* const>;
using SeriesRows = std::vector<const Series*>;
using Runs = std::vector<const ComparisonRow*>;

// Of a run without a series its point.
const std::string& series_name(const ComparisonRow& run);

// In the order in which each first appears; a run without a series is one of its own. `runs`
// outlive it.
std::deque<Series> series_of(std::span<const ComparisonRow> runs);

// The figures of a series' runs from which ratios are taken: of those that finished, or of all.
std::vector<double> figures_of(const Series& series, std::optional<double> AttemptSummary::*figure);

// Chooses the baselines: of an experiment's group its first series of which a run finished, or the
// one that `name` is the name of, or the beginning of the name up to a space (a point before what a
// sweep adds to it). Where a group has none called so, another group's of the experiment is taken.
// Throws ConfigError (place: --baseline) when no experiment has one.
void put_baselines(std::deque<Series>& all, const std::string& name);

// Fills in the ratios to the baseline of series of which a run finished.
void put_ratios(std::deque<Series>& all);

}  // namespace fsdp
