#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "runner/store/comparison.h"

// Groups the repeats of one point, and compares groups with their baselines. Pure.
namespace fsdp {

// --- ratios of repeated runs' figures ---

struct Interval {
  double low = 0;
  double high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
};

// The median of a row's repeats divided by the median of the baseline's. The interval is a 95 %
// confidence interval if both sides have kLeastForConfidence repeats. With kLeastRepeats it is the
// range of the ratios of any repeat to any repeat of the baseline. With fewer there is no interval.
struct Ratio {
  double value = 0;
  std::optional<Interval> interval{};
  bool is_confidence = false;  // true: a confidence interval; false: a range
};

// With fewer repeats a range would describe chance rather than the runs.
inline constexpr size_t kLeastRepeats = 3;
// With this many repeats the interval contained the true ratio in 95 to 97 % of simulated
// comparisons. Noise was normal, heavy-tailed and skewed. With 3 repeats it was 90 %, with 4 it was
// 93 %.
inline constexpr size_t kLeastForConfidence = 5;

// Computes ratios of medians with percentile bootstrap intervals (B. Efron, R. Tibshirani: An
// Introduction to the Bootstrap, 1993, chapter 13). Both sides are resampled from their own repeats
// kResamples times, with replacement. The interval is from the 2.5th to the 97.5th percentile of
// the ratios. The seed is fixed and the draws depend only on the number of repeats, so equal runs
// have the same interval in every report. Many rows share the draws: the places of a resample's
// median in the sorted sample do not depend on its values.
class Bootstrap {
 public:
  static constexpr size_t kResamples = 4'000;

  // Takes the sorted values of each side. They are not empty, and positive.
  Ratio ratio(std::vector<double> values, std::vector<double> baseline);

 private:
  // The two places in the sorted sample whose mean is a resample's median. They are equal if the
  // number of values is odd.
  struct MiddlePlaces {
    uint32_t below, above;
  };
  enum class Side { kRow, kBaseline };
  const std::vector<MiddlePlaces>& draws(Side side, size_t count);

  std::map<std::pair<Side, size_t>, std::vector<MiddlePlaces>> draws_;
};

// --- series ---

struct Series;

// How the speed of a row compares with another row's. From kTooFewSteps on, the two rows are not
// compared.
enum class Speed {
  kSlower,
  kNoDifference,  // the difference may be noise
  kFaster,
  kTooFewSteps,  // one of the rows has no speed, or an unknown variance
  kDisturbed,    // other processes influenced the speed of one of the rows
  kOtherDevice,  // the devices differ, or one is not known
  kOtherModel,
  kOtherFilling,  // they differ only if tokens that fill sequences up count
};

// weak: each rank does the same work; the total batch grows with the ranks. strong: the total batch
// is constant; each rank accumulates fewer micro-batches.
enum class ScalingKind { kBase, kWeak, kStrong };
constexpr auto enum_names(ScalingKind) { return std::array{"base"sv, "weak"sv, "strong"sv}; }

// The row that differs from this row in nothing but the number of ranks.
struct Scaling {
  const Series* base = nullptr;  // if kBase, the row itself
  ScalingKind kind = ScalingKind::kBase;
};

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
  const Series* baseline = nullptr;  // null: no series of the group has finished
  // Set by put_speeds() for rows that are shown together with a finished baseline.
  std::optional<Speed> against_baseline{};
  bool has_other_losses = false;  // not comparable with those of most rows; set by reports
  std::optional<Ratio> tokens_per_second_ratio{};
  std::optional<Ratio> step_time_ratio{};
  std::optional<Scaling> scaling{};  // set by put_scaling()

  bool has(const ComparisonRow* run) const;
  // Returns the run's point without the shared words.
  std::string name_of_run(const ComparisonRow& run) const;
  // "finished"; if the repeats differ, "4 finished, 1 failed".
  std::string status_text() const;
};

// The subject of a row of a report: a run, a series, or a rank of a run.
struct RunRow {
  const ComparisonRow* run;       // of a series: the medians over its repeats
  const Series* series;           // the run's series, with its baseline
  const RankRow* rank = nullptr;  // null unless the row is a rank

  bool is_series() const { return run == &series->median; }
};

// Rows that are compared with each other.
using Rows = std::span<const Series* const>;
using SeriesRows = std::vector<const Series*>;
using Runs = std::vector<const ComparisonRow*>;

// Returns the run's series, or its point if it has none.
const std::string& series_name(const ComparisonRow& run);

// Returns the series in the order of their first runs. A run without a series becomes a series of
// its own. `runs` must outlive the result.
std::deque<Series> series_of(std::span<const ComparisonRow> runs);

bool is_finished(const ComparisonRow* run);
// Returns the rows that have a finished run.
SeriesRows finished_rows(Rows rows);
Runs started_runs(Rows rows);
Runs finished_runs(Rows rows);

// Returns a figure's positive finite values, of finished runs, or of all runs if none finished.
std::vector<double> figures_of(const Series& series, std::optional<double> AttemptSummary::*figure);

// Chooses the baseline of each group of an experiment. It is the group's series called `name`, else
// another group's series called `name`, else the group's first series with a finished run. `name`
// may also be the point of a run in the series. It may be the beginning of a series' name up to a
// space: a point without a sweep's additions. Throws ConfigError (place: --baseline) if no series
// has this name.
void put_baselines(std::deque<Series>& all, const std::string& name);

// Sets the ratios to the baseline of series with a finished run. There are none if the two speeds
// cannot be compared (are_comparable() in speeds.h).
void put_ratios(std::deque<Series>& all);

// Sets Series::scaling of rows that finished and have a speed that can be compared. The base is the
// row of the same experiment and device with fewest ranks and an otherwise equal specification. It
// may differ in keys that follow from the ranks: accumulation or the total batch, steps, and the
// options of Slurm. A base of one rank may also differ in the strategy, because nothing is sharded,
// but not in offload. If several rows qualify, rows with the same strategy come first, then those
// with the same total batch, then the first. A row that is only a base of others is kBase.
void put_scaling(std::deque<Series>& all);

// Returns tokens_per_second_per_rank of a run, or of a series' medians, in percent of the base's.
std::optional<double> scaling_efficiency_percent(const std::optional<Scaling>& scaling,
                                                 const ComparisonRow& run);

}  // namespace fsdp
