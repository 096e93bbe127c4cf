// Finds rows that fit, and those with the least memory.
#include <algorithm>
#include <set>

#include "runner/answers/facts.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

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
  return only(rows, [&](auto* row) { return is_equal_memory(allocated_bytes(row), least); });
}

}  // namespace

bool is_equal_memory(double one, double other) {
  constexpr double kEqualMemory = 1.01;
  return std::max(one, other) <= kEqualMemory * std::min(one, other);
}

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
