#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/plan/run_plan.h"
#include "runner/series/series.h"

// Why two runs or plans differ in time and memory: changes of parts that add up to the whole
// change. Pure.
namespace fsdp {

// The figures of a run or plan that have parts.
struct Explained {
  double tokens_per_step = 0;  // of all ranks; 0: not known
  std::optional<double> step_time_ms{};
  std::optional<TimeByPart> time{};  // nullopt: no account, as in results of older versions
  int64_t slowest_rank = 0;
  std::string slowest_host{};        // of this rank, in a job of Slurm
  double slowest_rank_extra_ms = 0;  // that this rank alone works longer
  std::optional<double> allocated_bytes{};
  std::optional<MemoryByUse> uses{};
  bool is_sharded = false;
};
Explained explained(const ComparisonRow& run);
Explained explained(const RunSpec& spec, const RunPlan& plan);

// Returns `of` with times for as many tokens as a step of `own` has.
Explained with_tokens_of(const Explained& own, Explained of);
// "ms a step", or "ms for 2048 tokens" if a step of `baseline` has another number of tokens.
std::string time_unit(const Explained& own, const Explained& baseline);

// Names and sizes of parts, the largest first, in the unit of the figure.
using Parts = std::vector<std::pair<std::string, double>>;

// The parts of a step's time in milliseconds, and of a rank's peak of allocated memory in bytes.
// Empty: not known.
Parts time_parts(const Explained& of);
Parts memory_parts(const Explained& of);

// Returns how much of a run's products the device's peak explains; empty if the peak is not known.
std::string peak_text(const ComparisonRow& run);

// A change of a figure from a baseline.
struct FigureChange {
  std::string unit{};  // "GiB", or as time_unit() says
  double total = 0;
  Parts parts{};           // their changes
  double unexplained = 0;  // what they do not add up to
};

// Return the change of the median step's time, for as many tokens, and of the peak of allocated
// memory. nullopt if the parts of one side are not known.
std::optional<FigureChange> time_change(const Explained& own, const Explained& baseline);
std::optional<FigureChange> memory_change(const Explained& own, const Explained& baseline);

// "+62 ms a step = +41 all-gathers that nothing hides (backward +33, forward +8), +14 optimizer,
// +7 other parts". The figures add up as they are printed. "0 ms a step": nothing differs.
std::string time_change_text(const FigureChange& change);
// "-2.11 GiB = -1.50 optimizer state, -0.75 gradients, +0.14 other parts"
std::string memory_change_text(const FigureChange& change);
// Returns both texts, of changes that are known.
std::vector<std::string> change_texts(const Explained& own, const Explained& baseline);

// Why a row differs from its baseline. A change within noise is left out.
struct WhyRow {
  const Series* row = nullptr;
  std::optional<FigureChange> time{};
  std::optional<FigureChange> memory{};
};
std::vector<WhyRow> why_rows_differ(Rows rows);

}  // namespace fsdp
