#include <fmt/format.h>

#include <algorithm>

#include "runner/report/answers.h"
#include "runner/report/names.h"
#include "runner/report/number_text.h"
#include "runner/report/row_spec.h"
#include "runner/report/speeds.h"

namespace fsdp {
namespace {

double tokens_per_second(const Series* series) {
  return series->median.tokens_per_second.value_or(0);
}

std::string model_of(const Series* series) {
  const nlohmann::json spec = row_spec(series->median);
  return spec.contains("model") ? spec.at("model").dump() : "";
}

template <typename Of>
bool is_same_for_all(const SeriesRows& rows, Of of) {
  return std::ranges::all_of(rows,
                             [&](const Series* series) { return of(series) == of(rows.front()); });
}

// Why nobody can say which is fastest; empty: one can.
std::string not_comparable(const SeriesRows& rows) {
  if (!is_same_for_all(rows, [](auto* series) { return series->median.device_name; })) {
    return "run on different devices, so none is called fastest";
  }
  if (!is_same_for_all(rows, model_of)) return "of different models, so none is called fastest";
  return "";
}

std::string range_of(const SeriesRows& from_fastest) {
  const std::string most = short_number(tokens_per_second(from_fastest.front()));
  const std::string least = short_number(tokens_per_second(from_fastest.back()));
  return (least == most ? most : least + " to " + most) + " tokens/s";
}

std::string one_row(const Series& series) {
  return fmt::format("{} tokens/s, {} ms a step", short_number(tokens_per_second(&series)),
                     three_digits(series.median.step_time_ms_median));
}

std::string fastest_row(const SeriesRows& from_fastest) {
  const Series& first = *from_fastest[0];
  const Series& second = *from_fastest[1];
  std::string text = fmt::format("{} is fastest, {} tokens/s", told_apart(first.name),
                                 short_number(tokens_per_second(&first)));
  const std::string of_baseline = ratio_of_baseline(
      first, first.tokens_per_second_ratio ? std::optional(first.tokens_per_second_ratio->value)
                                           : std::nullopt);
  if (!of_baseline.empty()) text += ", " + of_baseline;
  return text + fmt::format("; next: {}, {}", told_apart(second.name),
                            short_number(tokens_per_second(&second)));
}

SeriesRows measured_from_fastest(Rows rows) {
  SeriesRows measured = finished_rows(rows);
  std::erase_if(measured, [](const Series* series) { return tokens_per_second(series) <= 0; });
  std::ranges::stable_sort(measured, std::greater(), tokens_per_second);
  return measured;
}

SeriesRows as_fast_as_first(SeriesRows from_fastest) {
  const Series& first = *from_fastest.front();
  std::erase_if(from_fastest, [&](const Series* series) {
    return speed_against(first, *series) == Speed::kFaster;
  });
  return from_fastest;
}

}  // namespace

SeriesRows fastest_rows(Rows rows) {
  const SeriesRows measured = measured_from_fastest(rows);
  if (measured.size() < 2 || !not_comparable(measured).empty()) return {};
  const SeriesRows as_fast = as_fast_as_first(measured);
  return as_fast.size() == measured.size() ? SeriesRows() : as_fast;
}

std::string how_fast_they_are(Rows rows) {
  const SeriesRows measured = measured_from_fastest(rows);
  if (measured.empty()) return "";
  if (measured.size() == 1) return one_row(*measured.front());
  const std::string reason = not_comparable(measured);
  if (!reason.empty()) return range_of(measured) + ", " + reason;
  const SeriesRows as_fast = as_fast_as_first(measured);
  if (as_fast.size() == 1) return fastest_row(measured);
  if (as_fast.size() == measured.size()) return range_of(measured) + ", equal within noise";
  return fmt::format("{} are fastest, {}, equal within noise", names_in_words(points_of(as_fast)),
                     range_of(as_fast));
}

}  // namespace fsdp
