#include "runner/report/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runner/report/number_text.h"

namespace fsdp {

SeriesRows finished_rows(Rows rows) {
  SeriesRows finished;
  std::ranges::copy_if(rows, std::back_inserter(finished),
                       [](const Series* series) { return series->finished_count > 0; });
  return finished;
}

std::string told_apart(const std::string& point) {
  const bool reads_as_two = std::ranges::any_of(std::array{",", ";", " and "}, [&](auto words) {
    return point.find(words) != std::string::npos;
  });
  return reads_as_two ? "'" + point + "'" : point;
}

std::vector<std::string> points_of(Rows rows) {
  std::vector<std::string> points;
  for (const Series* series : rows) points.push_back(told_apart(series->name));
  return points;
}

std::string ratios_of_baseline(const Series& series, double least, double most) {
  const Series* baseline = series.baseline;
  if (baseline == nullptr || baseline == &series || baseline->finished_count == 0) return "";
  const std::string least_text = ratio(least), most_text = ratio(most);
  return fmt::format("{} of {}",
                     least_text == most_text ? most_text : least_text + " to " + most_text,
                     told_apart(baseline->name));
}

std::vector<Answer> answers_for(Rows rows) {
  const auto is_started = [](const Series* series) {
    return series->median.attempt.has_value() || series->median.status != RunStatus::kPlanned;
  };
  if (std::ranges::none_of(rows, is_started)) return {};
  std::vector<Answer> answers{{"Fits", whether_they_fit(rows)},
                              {"Speed", how_fast_they_are(rows)},
                              {"Loss", whether_losses_are_equal(rows)},
                              {"Scaling", how_they_scale(rows)}};
  std::ranges::move(what_changes_bring(rows), std::back_inserter(answers));
  std::erase_if(answers, [](const Answer& answer) { return answer.text.empty(); });
  return answers;
}

}  // namespace fsdp
