#pragma once

#include "runner/report/series.h"

// Whether one row is faster than another, as far as their repeats or steps can tell. Pure.
namespace fsdp {

enum class Speed { kSlower, kNoDifference, kFaster, kTooFewSteps, kDisturbed };

// Quartiles of fewer steps are those of two or three numbers. The lab's shortest row has 4 after
// its warm-up.
inline constexpr int64_t kLeastMeasuredSteps = 4;

// Steps that its times are taken from.
double measured_steps(const ComparisonRow& run);

// A run was disturbed if others took more of its CPUs than the first, and its threads waited for
// longer than the second. Ranks that share too few CPUs wait for each other. If CPUs are left over,
// nobody waits, however much others do.
inline constexpr double kCpuTimeOthersPercentAllowed = 5;
inline constexpr double kRunQueueWaitPercentAllowed = 5;
bool was_disturbed(const ComparisonRow& run);
// True if at least half of the runs that finished were.
bool is_disturbed(const Series& row);

using SpeedFigure = std::optional<double> AttemptSummary::*;

// Compares the speeds of rows that are shown together. The chance that noise alone makes any of
// their pairs differ is below 5 %, however many rows there are.
//
// Each pair has a two-sided t-test on the logarithms of the repeats' speeds, at 5 % divided by the
// number of pairs (O. J. Dunn: Multiple comparisons among means, JASA 56, 1961). A row's variance
// is that of its repeats, moderated by what single runs were seen to vary by, which counts like
// kPriorFreedom more repeats (G. K. Smyth: Linear models and empirical Bayes methods, 2004); so
// rows of one run are compared as well, unless the quartiles of their steps overlap. Repeats of a
// row run one after another, so a host that drifts moves them together: that part of the variance
// does not shrink with more repeats.
// docs/reports.md has the power.
class SpeedComparison {
 public:
  explicit SpeedComparison(Rows rows);

  // kTooFewSteps: of one of the rows nobody knows how much its speed varies, or it has none.
  // kDisturbed: the speed of one of the rows says what others did, too.
  Speed against(const Series& row, const Series& other) const {
    return against(row, other, figure_);
  }
  Speed against(const Series& row, const Series& other, SpeedFigure figure) const;
  // Those that fit and have a speed, from the fastest.
  const SeriesRows& rows() const { return rows_; }
  // True if the row has enough steps, or repeats, to be compared.
  bool is_known(const Series& row) const;

  // Tokens per second; without those that fill sequences up, where rows differ in how many.
  SpeedFigure figure() const { return figure_; }
  double speed_of(const Series& row) const { return (row.median.*figure_).value_or(0); }
  const char* unit() const;         // "tokens/s"
  const char* column_name() const;  // "tokens_per_second"

 private:
  SeriesRows rows_;
  SpeedFigure figure_ = &AttemptSummary::tokens_per_second;
  double level_ = 0;  // of each pair
};

// Returns why a speed cannot be compared: "3 steps", "2 steps of warm-up", "2 repeats of 3 steps",
// "a busy host". Empty: it can be, or nothing finished.
std::string doubt_of(const ComparisonRow& run);
std::string doubt_of(const Series& row);

// True if a run of the row finished and none ran out of memory.
bool fits(const Series& row);
size_t out_of_memory_count(const Series& row);
SeriesRows rows_that_fit(Rows rows);

}  // namespace fsdp
