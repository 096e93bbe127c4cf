#pragma once

#include <deque>
#include <string>

#include "runner/series/series.h"

// Tests if one row is faster than another, given their repeats or steps. Pure.
namespace fsdp {

// Quartiles need at least this many steps; with fewer they would rest on two or three numbers. The
// lab's shortest row has 4 after its warm-up.
inline constexpr int64_t kLeastMeasuredSteps = 4;

// Returns the number of steps after the warm-up; 0 or less if the run did not get beyond it.
double measured_steps(const ComparisonRow& run);

// A run was disturbed if both limits are exceeded: the CPU time that other processes took, and the
// time that the run's threads waited. One alone is harmless: ranks on too few CPUs wait for each
// other, and other processes may use CPUs that no rank needs.
inline constexpr double kCpuTimeOthersPercentAllowed = 5;
inline constexpr double kRunQueueWaitPercentAllowed = 5;
bool was_disturbed(const ComparisonRow& run);
// True if at least half of the finished runs were disturbed.
bool is_disturbed(const Series& row);

// An estimate from the logarithms of a row's speeds.
struct Estimate {
  double mean = 0;
  double variance_of_mean = 0;
  int64_t freedom = 0;  // degrees of freedom
};

// Returns nullopt if the row has too few steps or repeats.
std::optional<Estimate> estimate_of(const Series& row,
                                    std::optional<double> AttemptSummary::*figure);

// Compares the speeds of rows that are shown together. The chance that noise alone makes any pair
// differ is below 5 %, however many rows there are.
//
// Each pair has a two-sided t-test on the logarithms of the repeats' speeds, at 5 % divided by the
// number of pairs (O. J. Dunn: Multiple comparisons among means, JASA 56, 1961). A row has the
// variance of its repeats, moderated by the usual variance of single runs. The latter counts like
// kPriorFreedom more repeats (G. K. Smyth: Linear models and empirical Bayes methods, 2004). Rows
// of one run are therefore compared as well. A row with few repeats does not differ if the
// quartiles of its step times overlap the other row's. Repeats of a row run one after another, so a
// drifting host moves them together. More repeats do not reduce this part of the variance.
// docs/reports.md gives the differences that the test finds.
class SpeedComparison {
 public:
  explicit SpeedComparison(Rows rows);

  Speed against(const Series& row, const Series& other) const;
  // True if noise alone may make the two estimates differ.
  bool is_noise(const Estimate& one, const Estimate& other) const;
  // Returns the rows that fit and have a speed, from the fastest.
  const SeriesRows& rows() const { return rows_; }
  // True if the rows have different parts of tokens that fill sequences up.
  bool do_rows_differ_in_filling() const { return do_rows_differ_in_filling_; }

 private:
  using Figure = std::optional<double> AttemptSummary::*;
  Speed test(const Series& row, const Series& other, Figure figure) const;

  SeriesRows rows_;
  bool do_rows_differ_in_filling_ = false;
  double level_ = 0;                                 // significance level of each pair's test
  mutable std::map<int64_t, double> least_squares_;  // of a significant t, by degrees of freedom
};

// Sets Series::against_baseline of rows that are shown together.
void put_speeds(std::deque<Series>& all, Rows shown_together);

// Returns the probability that a value of Student's distribution is at least as far from 0 as `t`,
// on either side. `freedom` is the degrees of freedom, at least 1.
double student_tails(double t, int64_t freedom);

// Returns why a speed cannot be compared: "3 steps", "2 steps of warm-up", "2 repeats of 3 steps",
// "a busy host". Empty: it can be compared, or no run finished.
std::string doubt_of(const ComparisonRow& run);
std::string doubt_of(const Series& row);
// True if the speeds of both can be compared, so that one may be divided by the other.
template <typename One, typename Other>
bool are_comparable(const One& one, const Other& other) {
  return doubt_of(one).empty() && doubt_of(other).empty();
}

// Returns tokens per second; 0: not known.
double speed_of(const Series& row);
// True if the row has enough steps, or repeats, to be compared.
bool is_speed_known(const Series& row);

// True if a run of the row finished and none ran out of memory.
bool fits(const Series& row);
size_t out_of_memory_count(const Series& row);
SeriesRows rows_that_fit(Rows rows);

}  // namespace fsdp
