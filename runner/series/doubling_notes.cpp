#include "runner/series/doubling_notes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {

std::string name_without_value(const ComparisonRow& row) {
  const std::string value = '=' + std::to_string(row.family_value.value_or(0));
  const std::string of_repeat = row.point.substr(std::min(row.series.size(), row.point.size()));
  for (const std::string& label :
       {row.family_key, row.family_key.substr(row.family_key.rfind('.') + 1)}) {
    const std::string suffix = ' ' + label + value;
    if (row.series.ends_with(suffix)) {
      return row.series.substr(0, row.series.size() - suffix.size()) + of_repeat;
    }
  }
  return row.point;
}

namespace {

// The runs of one series of a doubled key.
struct DoubledRows {
  std::string experiment;
  int64_t position = 0;
  std::string name;  // of the point, without the value
  std::string key;
  std::map<int64_t, const ComparisonRow*> finished{};  // by value
  std::optional<int64_t> smallest_that_does_not_fit{};
  std::vector<const ComparisonRow*> others{};  // it is not known if they fit
};

std::vector<DoubledRows> doubled_rows(std::span<const ComparisonRow> rows) {
  std::vector<DoubledRows> all;
  for (const ComparisonRow& row : rows) {
    if (!row.family_value) continue;
    auto found = std::ranges::find_if(all, [&](const DoubledRows& other) {
      return other.experiment == row.experiment && other.position == row.position;
    });
    if (found == all.end()) {
      all.push_back({row.experiment, row.position, name_without_value(row), row.family_key});
      found = std::prev(all.end());
    }
    if (row.status == RunStatus::kFinished) {
      found->finished[*row.family_value] = &row;
    } else if (row.status == RunStatus::kOutOfMemory) {
      auto& smallest = found->smallest_that_does_not_fit;
      smallest = std::min(smallest.value_or(*row.family_value), *row.family_value);
    } else {
      found->others.push_back(&row);
    }
  }
  return all;
}

// True if a value that may fit is larger than all finished ones.
bool may_be_larger(const DoubledRows& series) {
  const int64_t most = series.finished.empty() ? 0 : series.finished.rbegin()->first;
  const auto& does_not = series.smallest_that_does_not_fit;
  return std::ranges::any_of(series.others, [&](const ComparisonRow* row) {
    return *row->family_value > most && (!does_not || *row->family_value < *does_not);
  });
}

// True if the largest value that fits is known.
bool is_bounded(const DoubledRows& series) {
  return series.smallest_that_does_not_fit && !may_be_larger(series);
}

// "FSDP: largest batch.size_per_rank that fits: 6 (8 does not)"
std::string answer(const DoubledRows& series) {
  const auto& does_not = series.smallest_that_does_not_fit;
  std::string text = series.name + ": ";
  if (!series.finished.empty()) {
    text += fmt::format("largest {} that {}fits: {}", series.key,
                        is_bounded(series) ? "" : "was run and ", series.finished.rbegin()->first);
    if (does_not) text += fmt::format(" ({} does not)", *does_not);
  } else {
    text += does_not ? fmt::format("{} {} does not fit", series.key, *does_not)
                     : "no run has a result for " + series.key;
  }
  for (const ComparisonRow* row : series.others) {
    text += fmt::format("; {}: {}", *row->family_value, name_of(row->status));
  }
  return text;
}

// ". A step takes 120 ms at 1, 96.0 ms at 6 (x0.80)". Empty unless both runs have the same total
// batch and sequence length.
std::string step_times(const DoubledRows& series) {
  if (series.finished.size() < 2) return "";
  const auto& [first_value, first] = *series.finished.begin();
  const auto& [last_value, last] = *series.finished.rbegin();
  if (!first->step_time_ms_median || !last->step_time_ms_median) return "";
  if (first->total_batch != last->total_batch || first->sequence_length != last->sequence_length) {
    return "";
  }
  return fmt::format(". A step takes {} ms at {}, {} ms at {} ({})",
                     three_digits(first->step_time_ms_median), first_value,
                     three_digits(last->step_time_ms_median), last_value,
                     ratio(*last->step_time_ms_median / *first->step_time_ms_median));
}

// ". Compared with FSDP, a step at 6 takes x1.31 the time, and the largest value is x2.67"
std::string compared(const DoubledRows& series, const DoubledRows& reference) {
  if (series.finished.empty()) return "";
  std::string text = ". Compared with " + quoted_if_unclear(reference.name) + ", ";
  const auto common =
      std::find_if(reference.finished.rbegin(), reference.finished.rend(),
                   [&](const auto& finished) { return series.finished.contains(finished.first); });
  if (common != reference.finished.rend()) {
    const auto& [value, other] = *common;
    const ComparisonRow& own = *series.finished.at(value);
    if (own.step_time_ms_median && other->step_time_ms_median &&
        own.total_batch == other->total_batch) {
      text += fmt::format("a step at {} takes {} the time, and ", value,
                          ratio(*own.step_time_ms_median / *other->step_time_ms_median));
    }
  }
  const auto largest = static_cast<double>(series.finished.rbegin()->first);
  const auto largest_of_reference = static_cast<double>(reference.finished.rbegin()->first);
  const bool are_known = is_bounded(series) && is_bounded(reference);
  return fmt::format("{}the largest value{} is {}", text, are_known ? "" : " that was run",
                     ratio(largest / largest_of_reference));
}

}  // namespace

std::vector<std::string> largest_that_fit(std::span<const ComparisonRow> rows) {
  std::map<std::string, std::vector<std::string>> by_key;
  for (const DoubledRows& series : doubled_rows(rows)) {
    const std::string value =
        series.finished.empty() ? "none" : std::to_string(series.finished.rbegin()->first);
    const char* remark = may_be_larger(series)               ? " so far"
                         : series.smallest_that_does_not_fit ? ""
                                                             : " (no larger value was tried)";
    by_key[series.key].push_back(
        fmt::format("{} for {}{}", value, quoted_if_unclear(series.name), remark));
  }
  std::vector<std::string> texts;
  for (const auto& [key, values] : by_key) {
    texts.push_back(fmt::format("largest {} that fits: {}", key, fmt::join(values, ", ")));
  }
  return texts;
}

std::vector<std::string> doubling_notes(std::span<const ComparisonRow> rows) {
  const std::vector<DoubledRows> all = doubled_rows(rows);
  std::vector<std::string> notes;
  for (const DoubledRows& series : all) {
    const auto reference = std::ranges::find_if(all, [&](const DoubledRows& other) {
      return other.experiment == series.experiment && other.key == series.key &&
             !other.finished.empty();
    });
    std::string note = answer(series) + step_times(series);
    if (reference != all.end() && &*reference != &series) note += compared(series, *reference);
    notes.push_back(note + '.');
  }
  return notes;
}

}  // namespace fsdp
