// Finds rows that fit, those with the least memory, and why rows differ in memory.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "runner/answers/facts.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

// Memory within this factor counts as equal. Between repeats, only the memory that libraries
// request differs.
constexpr double kEqualMemory = 1.01;
// Parts below this fraction of the peak are not told.
constexpr double kSmallPart = 0.02;

constexpr size_t kParts = enum_names(MemoryPart()).size();
using BytesOfParts = std::array<double, kParts>;

MemoryPart part_of(MemoryUse use, bool is_sharded) {
  switch (use) {
    case MemoryUse::kParameters:
      return MemoryPart::kWeights;
    case MemoryUse::kWhole:
      return is_sharded ? MemoryPart::kGathered : MemoryPart::kConverted;
    case MemoryUse::kGradients:
      return MemoryPart::kGradients;
    case MemoryUse::kOptimizerState:
      return MemoryPart::kOptimizerState;
    case MemoryUse::kAttention:
    case MemoryUse::kMlp:
    case MemoryUse::kHidden:
    case MemoryUse::kHead:
    case MemoryUse::kActivationGradients:
    case MemoryUse::kBatch:
      return MemoryPart::kActivations;
    case MemoryUse::kOther:
      break;
  }
  return MemoryPart::kOther;
}

// Returns the parts of the row's memory, of a run whose peak is the row's. nullopt: not recorded.
std::optional<BytesOfParts> parts_of(const Series& row) {
  const auto found = std::ranges::find_if(row.runs, [&](const ComparisonRow* run) {
    return is_finished(run) && run->memory_by_use &&
           run->memory_allocated_bytes_max == row.median.memory_allocated_bytes_max;
  });
  if (found == row.runs.end()) return std::nullopt;
  const bool is_sharded = (*found)->spec.strategy.kind == StrategyKind::kFsdp;
  BytesOfParts parts{};
  for (size_t use = 0; use < kMemoryUses; ++use) {
    parts[static_cast<size_t>(part_of(static_cast<MemoryUse>(use), is_sharded))] +=
        static_cast<double>((*found)->memory_by_use->bytes[use]);
  }
  return parts;
}

// Returns N if a rank keeps 1/N of the part, and N divides the row's ranks. 0: it does not.
int64_t divisor(double of_baseline, double own, int64_t ranks) {
  constexpr double kPadding = 0.03;  // shards are rounded up
  if (!(own > 0) || of_baseline < 2 * own * (1 - kPadding)) return 0;
  const auto count = static_cast<int64_t>(std::min(std::round(of_baseline / own), 1e9));
  const bool is_near =
      std::abs(own * static_cast<double>(count) - of_baseline) <= kPadding * of_baseline;
  return is_near && ranks % count == 0 ? count : 0;
}

MemoryDifference difference_of(const Series& row, const BytesOfParts& own,
                               const BytesOfParts& of_baseline, double small) {
  MemoryDifference difference{.row = &row};
  std::vector<std::pair<int64_t, MemoryPart>> divided;
  for (size_t i = 0; i < kParts; ++i) {
    const auto part = static_cast<MemoryPart>(i);
    const double more = own[i] - of_baseline[i];
    if (std::abs(more) < small) continue;
    if (own[i] == 0) {
      difference.absent.push_back(part);
    } else if (const int64_t count =
                   divisor(of_baseline[i], own[i], row.median.spec.strategy.ranks);
               count > 0) {
      divided.emplace_back(count, part);
    } else {
      difference.changed.emplace_back(part, more);
    }
  }
  for (const auto& [count, alike] : grouped(divided, [](auto& one) { return one.first; })) {
    difference.divided.emplace_back(count, mapped(alike, [](auto& one) { return one.second; }));
  }
  return difference;
}

void put_differences(MemoryFacts& facts) {
  const Series* baseline = facts.measured.empty() ? nullptr : facts.measured.front()->baseline;
  const auto of_baseline = baseline ? parts_of(*baseline) : std::nullopt;
  if (!of_baseline) return;
  const double peak = allocated_bytes(baseline);
  for (const Series* row : facts.measured) {
    const double own = allocated_bytes(row);
    const auto parts = parts_of(*row);
    if (!parts || std::max(own, peak) <= kEqualMemory * std::min(own, peak)) continue;
    facts.differences.push_back(difference_of(*row, *parts, *of_baseline, kSmallPart * peak));
  }
  if (facts.differences.empty()) return;
  for (size_t i = 0; i < kParts; ++i) {
    if ((*of_baseline)[i] < kSmallPart * peak) continue;
    facts.parts_of_baseline.emplace_back(static_cast<MemoryPart>(i), (*of_baseline)[i]);
  }
  std::ranges::stable_sort(facts.parts_of_baseline, std::greater(),
                           [](const auto& part) { return part.second; });
}

// Returns the limit that all runs of the rows exceeded. nullopt: there is no such limit.
std::optional<double> common_limit(const SeriesRows& rows) {
  std::set<std::optional<double>> limits;
  for (const Series* row : rows) {
    for (const ComparisonRow* run : row->runs) limits.insert(run->exceeded_limit_bytes());
  }
  return limits.size() == 1 ? *limits.begin() : std::nullopt;
}

SeriesRows with_least_memory(const SeriesRows& rows) {
  if (rows.empty()) return {};
  const double least = allocated_bytes(*std::ranges::min_element(rows, {}, allocated_bytes));
  return only(rows, [&](auto* row) { return allocated_bytes(row) <= kEqualMemory * least; });
}

}  // namespace

double allocated_bytes(const Series* row) {
  return static_cast<double>(row->median.memory_allocated_bytes_max.value_or(0));
}

MemoryFacts memory_facts(Rows rows) {
  MemoryFacts facts;
  SeriesRows doubled;
  for (const Series* row : rows) {
    if (row->median.family_value) {
      doubled.push_back(row);
      continue;
    }
    const size_t count = out_of_memory_count(*row);
    SeriesRows& alike = fits(*row)                 ? facts.fitting
                        : count == 0               ? facts.unknown
                        : count < row->runs.size() ? facts.at_times
                                                   : facts.without_room;
    alike.push_back(row);
  }
  facts.doubled = doubling_results(doubled);
  facts.exceeded_limit_bytes = common_limit(facts.without_room);
  facts.measured = only(facts.fitting, [](auto* row) { return allocated_bytes(row) > 0; });
  facts.least = with_least_memory(facts.measured);
  put_differences(facts);
  return facts;
}

BestRows rows_with_least_memory(Rows rows) {
  const SeriesRows measured =
      only(rows_that_fit(rows), [](auto* row) { return allocated_bytes(row) > 0; });
  BestRows best{with_least_memory(measured), "memory_allocated_bytes_max"};
  if (best.rows.size() == measured.size()) best.rows.clear();
  return best;
}

}  // namespace fsdp
