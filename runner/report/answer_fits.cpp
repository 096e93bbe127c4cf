#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "runner/report/answers.h"
#include "runner/report/doubling_notes.h"
#include "runner/report/names.h"
#include "runner/report/number_text.h"
#include "runner/report/speeds.h"

namespace fsdp {
namespace {

// Memory within this factor is equal. Only memory requested by libraries differs between runs.
constexpr double kEqualMemory = 1.01;

// " in 24.0 GiB", if all of their runs exceeded that limit.
std::string limit_of(const SeriesRows& rows) {
  std::set<std::string> limits;
  for (const Series* series : rows) {
    for (const ComparisonRow* run : series->runs) {
      const std::optional<double> bytes = run->exceeded_limit_bytes();
      limits.insert(bytes ? fmt::format(" in {} GiB", gibibytes(bytes)) : "");
    }
  }
  return limits.size() == 1 ? *limits.begin() : "";
}

// "B ran out of memory in 4 of 5 repeats". Other runs of each row did not.
std::string at_times_text(const SeriesRows& rows) {
  std::vector<std::string> texts;
  for (const Series* series : rows) {
    texts.push_back(fmt::format("{} ran out of memory in {} of {} repeats",
                                told_apart(series->name), out_of_memory_count(*series),
                                series->runs.size()));
  }
  return fmt::format("; {}", fmt::join(texts, "; "));
}

// "all 5", "yes" for one, "3 of 5"; if there are other rows, "3 of 4 that finished or did not fit".
std::string share_of(size_t fitting, size_t known, bool are_all) {
  if (known == 0) return "not known";
  if (!are_all) return fmt::format("{} of {} that finished or did not fit", fitting, known);
  if (fitting < known) return fmt::format("{} of {}", fitting, known);
  return known == 1 ? "yes" : fmt::format("all {}", known);
}

// Counts rows without a doubled key: "3 of 5; 1 GPU and 4xDDP do not, in 24.0 GiB". Rows that
// neither finished nor ran out of memory may fit, and are not counted.
std::string count_that_fit(const SeriesRows& rows) {
  SeriesRows without_room, at_times;
  std::map<std::string, SeriesRows> by_status;
  for (const Series* series : rows) {
    if (fits(*series)) continue;
    const size_t count = out_of_memory_count(*series);
    SeriesRows& alike = count == 0                     ? by_status[series->status_text()]
                        : count == series->runs.size() ? without_room
                                                       : at_times;
    alike.push_back(series);
  }
  const size_t fitting = rows_that_fit(rows).size();
  std::string text =
      share_of(fitting, fitting + without_room.size() + at_times.size(), by_status.empty());
  if (!without_room.empty()) {
    text += fmt::format("; {} {} not fit{}", names_in_words(points_of(without_room)),
                        without_room.size() == 1 ? "does" : "do", limit_of(without_room));
  }
  if (!at_times.empty()) text += at_times_text(at_times);
  for (const auto& [status, others] : by_status) {
    text += fmt::format("; {}: {}", status, joined_names(points_of(others)));
  }
  return text;
}

double allocated_bytes(const Series* series) {
  return static_cast<double>(series->median.memory_allocated_bytes_max.value_or(0));
}

SeriesRows with_measured_memory(Rows rows) {
  SeriesRows measured = rows_that_fit(rows);
  std::erase_if(measured, [](const Series* series) { return allocated_bytes(series) <= 0; });
  return measured;
}

SeriesRows with_least_of(const SeriesRows& measured) {
  const double least = allocated_bytes(*std::ranges::min_element(measured, {}, allocated_bytes));
  SeriesRows rows;
  std::ranges::copy_if(measured, std::back_inserter(rows), [&](const Series* series) {
    return allocated_bytes(series) <= kEqualMemory * least;
  });
  return rows;
}

// "least memory: offload, 0.0625 GiB a rank, x0.51 of 1 GPU"
std::string least_memory(Rows rows) {
  const SeriesRows measured = with_measured_memory(rows);
  if (measured.empty()) return "";
  const SeriesRows with_least = with_least_of(measured);
  const auto [least_row, most_row] = std::ranges::minmax(with_least, {}, allocated_bytes);
  const double least = allocated_bytes(least_row), most = allocated_bytes(most_row);
  const std::string figure = gibibytes(least, most) + " GiB a rank";
  if (measured.size() == 1) return figure;
  if (with_least.size() == measured.size()) return "each takes " + figure;
  std::string text =
      fmt::format("least memory: {}, {}", names_in_words(points_of(with_least)), figure);
  const Series& first = *with_least.front();
  const double of_baseline = first.baseline == nullptr ? 0 : allocated_bytes(first.baseline);
  if (!(of_baseline > 0) || std::ranges::find(with_least, first.baseline) != with_least.end()) {
    return text;
  }
  const std::string ratios = ratios_of_baseline(first, least / of_baseline, most / of_baseline);
  return ratios.empty() ? text : text + ", " + ratios;
}

}  // namespace

SeriesRows rows_with_least_memory(Rows rows) {
  const SeriesRows measured = with_measured_memory(rows);
  if (measured.size() < 2) return {};
  const SeriesRows with_least = with_least_of(measured);
  return with_least.size() == measured.size() ? SeriesRows() : with_least;
}

std::string whether_they_fit(Rows rows) {
  std::vector<ComparisonRow> doubled;
  SeriesRows others;
  for (const Series* series : rows) {
    if (series->median.family_value) {
      doubled.push_back(series->median);
    } else {
      others.push_back(series);
    }
  }
  std::vector<std::string> texts = largest_that_fit(doubled);
  if (!others.empty()) texts.push_back(count_that_fit(others));
  const std::string memory = others.empty() ? "" : least_memory(others);
  if (!memory.empty()) texts.push_back(memory);
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace fsdp
