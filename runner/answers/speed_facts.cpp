// Finds the rows that are fastest beyond noise. Rows that cannot be compared are not ranked.
#include <algorithm>

#include "runner/answers/facts.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

// Returns the rows that no other row beats. They tie within noise, because none beats another.
SeriesRows fastest_of(const SpeedComparison& speeds, const SeriesRows& from_fastest) {
  const auto estimates = mapped(from_fastest, [](const Series* row) {
    return estimate_of(*row, &AttemptSummary::tokens_per_second).value();
  });
  SeriesRows fastest;
  for (size_t own = 0; own < from_fastest.size(); ++own) {
    bool is_slower = false;
    for (size_t other = 0; other < own && !is_slower; ++other) {
      is_slower = !speeds.is_noise(estimates[own], estimates[other]) &&
                  speeds.against(*from_fastest[other], *from_fastest[own]) == Speed::kFaster;
    }
    if (!is_slower) fastest.push_back(from_fastest[own]);
  }
  return fastest;
}

// Returns the first reason why two of the rows cannot be compared.
std::optional<Speed> why_not_compared(const SpeedComparison& speeds, const SeriesRows& rows) {
  for (const Speed why : {Speed::kOtherDevice, Speed::kOtherModel}) {
    if (std::ranges::any_of(
            rows, [&](auto* row) { return speeds.against(*rows.front(), *row) == why; })) {
      return why;
    }
  }
  if (!speeds.do_rows_differ_in_filling()) return std::nullopt;
  for (auto row = rows.begin(); row != rows.end(); ++row) {
    if (std::any_of(rows.begin(), row, [&](const Series* other) {
          return speeds.against(**row, *other) == Speed::kOtherFilling;
        })) {
      return Speed::kOtherFilling;
    }
  }
  return std::nullopt;
}

}  // namespace

SpeedFacts speed_facts(Rows rows) {
  const SpeedComparison speeds(rows);
  SpeedFacts facts{.measured = speeds.rows()};
  facts.at_times = only(finished_rows(rows), [](const Series* row) { return !fits(*row); });
  SeriesRows known;
  for (const Series* row : facts.measured) {
    SeriesRows& place = is_disturbed(*row)     ? facts.disturbed
                        : is_speed_known(*row) ? known
                                               : facts.too_few_steps;
    place.push_back(row);
  }
  facts.why_none_ranked = why_not_compared(speeds, facts.measured);
  if (facts.why_none_ranked || known.size() < 2) return facts;
  facts.ranked = known;
  facts.fastest = fastest_of(speeds, known);
  if (facts.fastest.size() == 1) facts.next = fastest_of(speeds, {known.begin() + 1, known.end()});
  return facts;
}

BestRows fastest_rows(Rows rows) {
  const SpeedFacts facts = speed_facts(rows);
  BestRows best{.column = "tokens_per_second"};
  const bool are_all_ranked = facts.ranked.size() == facts.measured.size();
  if (are_all_ranked && facts.fastest.size() < facts.ranked.size()) best.rows = facts.fastest;
  return best;
}

}  // namespace fsdp
