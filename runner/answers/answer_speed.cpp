#include <algorithm>
#include <set>

#include "runner/answers/answers.h"
#include "runner/series/run_keys.h"
#include "runner/series/speeds.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

// The answers to two questions: which rows are fastest, and how do they scale?
namespace fsdp {
namespace {

std::string model_of(const ComparisonRow& run) {
  const nlohmann::json spec = row_spec(run);
  return spec.contains("model") ? spec.at("model").dump() : "";
}

// Returns the values of the rows' finished runs. "": not known.
template <typename Of>
std::set<std::string> values_of(const SeriesRows& rows, Of of) {
  std::set<std::string> values;
  for (const Series* series : rows) {
    for (const ComparisonRow* run : series->runs) {
      if (run->status == RunStatus::kFinished) values.insert(of(*run));
    }
  }
  return values;
}

// Returns why none can be called fastest. Empty: one can.
std::string not_comparable(const SeriesRows& rows) {
  const auto reason = [](std::set<std::string> values, const char* different,
                         const char* unknown) -> std::string {
    if (values.size() < 2) return "";
    return fmt::format("{}, so none is called fastest",
                       values.erase("") > 0 && values.size() < 2 ? unknown : different);
  };
  const std::string devices =
      reason(values_of(rows, [](const ComparisonRow& run) { return run.device_name; }),
             "run on different devices", "run on devices that are not all known");
  if (!devices.empty()) return devices;
  return reason(values_of(rows, model_of), "of different models",
                "of models that are not all known");
}

// "950 to 1000"
std::string range_of(const SpeedComparison& speeds, const SeriesRows& from_fastest) {
  return range_text(short_number(speeds.speed_of(*from_fastest.back())),
                    short_number(speeds.speed_of(*from_fastest.front())));
}

std::string one_row(const SpeedComparison& speeds, const Series& series) {
  return fmt::format("{} {}, {} ms a step", short_number(speeds.speed_of(series)), speeds.unit(),
                     three_digits(series.median.step_time_ms_median));
}

// Returns the rows that no other row beats. They do not differ: otherwise one would beat another.
SeriesRows fastest_of(const SpeedComparison& speeds, const SeriesRows& from_fastest) {
  SeriesRows fastest;
  for (auto row = from_fastest.begin(); row != from_fastest.end(); ++row) {
    const bool is_slower = std::any_of(from_fastest.begin(), row, [&](const Series* other) {
      return speeds.against(*other, **row) == Speed::kFaster;
    });
    if (!is_slower) fastest.push_back(*row);
  }
  return fastest;
}

// "x1.24 of 1 GPU"
std::string against_baseline(const SpeedComparison& speeds, const Series& row) {
  if (row.baseline == nullptr || is_disturbed(*row.baseline)) return "";
  const double of_baseline = speeds.speed_of(*row.baseline);
  if (!(of_baseline > 0)) return "";
  const double ratio = speeds.speed_of(row) / of_baseline;
  return ratios_of_baseline(row, ratio, ratio);
}

// "A, 1000" or "A and C, 950 to 1000, equal within noise"
std::string next_rows(const SpeedComparison& speeds, const SeriesRows& from_fastest) {
  const SeriesRows next = fastest_of(speeds, {from_fastest.begin() + 1, from_fastest.end()});
  const std::string text =
      fmt::format("{}, {}", names_in_words(points_of(next)), range_of(speeds, next));
  return next.size() == 1 ? text : text + ", equal within noise";
}

std::string fastest_row(const SpeedComparison& speeds, const SeriesRows& from_fastest) {
  const Series& first = *from_fastest.front();
  const std::string text = fmt::format("{} is fastest, {} {}", quoted_if_list(first.name),
                                       short_number(speeds.speed_of(first)), speeds.unit());
  return fmt::format("{}; next: {}", joined_texts({text, against_baseline(speeds, first)}, ", "),
                     next_rows(speeds, from_fastest));
}

// Describes at least two rows that can be compared.
std::string compared_rows(const SpeedComparison& speeds, const SeriesRows& from_fastest) {
  const SeriesRows fastest = fastest_of(speeds, from_fastest);
  if (fastest.size() == 1) return fastest_row(speeds, from_fastest);
  if (fastest.size() == from_fastest.size()) {
    return fmt::format("{} {}, equal within noise", range_of(speeds, from_fastest), speeds.unit());
  }
  return fmt::format("{} are fastest, {} {}, equal within noise",
                     names_in_words(points_of(fastest)), range_of(speeds, fastest), speeds.unit());
}

struct RankedRows {
  SeriesRows known;    // from the fastest
  SeriesRows unknown;  // the variance of their speed is not known
  SeriesRows disturbed;
};

RankedRows ranked_rows(const SpeedComparison& speeds) {
  RankedRows ranked;
  for (const Series* row : speeds.rows()) {
    SeriesRows& place = is_disturbed(*row)      ? ranked.disturbed
                        : speeds.is_known(*row) ? ranked.known
                                                : ranked.unknown;
    place.push_back(row);
  }
  return ranked;
}

// Lists rows with a speed that are not ranked, with the reason and a remedy.
std::string rows_left_out(const SeriesRows& unknown, const SeriesRows& disturbed,
                          const SeriesRows& not_fitting) {
  std::string text;
  if (!unknown.empty()) {
    text += fmt::format("; too few steps to tell: {} (raise train.steps)",
                        names_in_words(points_of(unknown)));
  }
  if (!disturbed.empty()) {
    text += fmt::format("; not ranked, as others took CPU time: {} (run again on a quiet host)",
                        names_in_words(points_of(disturbed)));
  }
  if (!not_fitting.empty()) {
    text += fmt::format("; not ranked, as repeats ran out of memory: {}",
                        names_in_words(points_of(not_fitting)));
  }
  return text;
}

SeriesRows rows_that_fit_at_times(Rows rows) {
  return only(finished_rows(rows), [](const Series* series) { return !fits(*series); });
}

// --- scaling ---

// "4xDDP 91 %", with a remark if 100 % is possible.
std::string efficiency_of(const Series& row, const SpeedComparison& speeds) {
  const Series& base = *row.scaling->base;
  const Speed speed = speeds.against(row, base, &AttemptSummary::tokens_per_second_per_rank);
  if (speed == Speed::kDisturbed) {
    return quoted_if_list(row.name) + " not known (others took CPU time)";
  }
  const std::string percent =
      whole_percent(*scaling_efficiency_percent(row.scaling, row.median)) + " %";
  const char* doubt = speed == Speed::kNoDifference  ? " (within noise of 100 %)"
                      : speed == Speed::kTooFewSteps ? " (too few steps to tell)"
                                                     : "";
  return fmt::format("{} {}{}", quoted_if_list(row.name), percent, doubt);
}

bool has_fewer_threads(const Series* row) {
  const std::optional<int64_t>& threads = row->median.threads;
  const std::optional<int64_t>& of_base = row->scaling->base->median.threads;
  return threads && of_base && *threads < *of_base;
}

// Describes rows that share a base and a kind.
std::string scaling_text(const SeriesRows& rows, const SpeedComparison& speeds) {
  constexpr size_t kMostScalingRows = 4;
  const Scaling& scaling = *rows.front()->scaling;
  std::vector<std::string> texts;
  for (const Series* row : rows) texts.push_back(efficiency_of(*row, speeds));
  std::string text = fmt::format(
      "{} of the tokens/s a rank of {} ({})", first_names(texts, kMostScalingRows),
      quoted_if_list(scaling.base->name),
      scaling.kind == ScalingKind::kWeak ? "weak scaling: the total batch grows with the ranks"
                                         : "strong scaling: the total batch stays");
  if (std::ranges::any_of(rows, has_fewer_threads)) text += ", with fewer CPU threads a rank";
  return text;
}

}  // namespace

FastestRows fastest_rows(Rows rows) {
  const SpeedComparison speeds(rows);
  FastestRows fastest{.column = speeds.column_name()};
  const auto [known, unknown, disturbed] = ranked_rows(speeds);
  if (known.size() < 2 || !unknown.empty() || !disturbed.empty()) return fastest;
  if (!not_comparable(known).empty()) return fastest;
  fastest.rows = fastest_of(speeds, known);
  if (fastest.rows.size() == known.size()) fastest.rows.clear();
  return fastest;
}

std::string speed_answer(Rows rows) {
  const SpeedComparison speeds(rows);
  const SeriesRows& measured = speeds.rows();
  const SeriesRows at_times = rows_that_fit_at_times(rows);
  if (measured.empty()) return "";
  const RankedRows ranked = ranked_rows(speeds);
  if (measured.size() == 1) {
    return one_row(speeds, *measured.front()) + rows_left_out({}, ranked.disturbed, at_times);
  }
  const std::string reason = not_comparable(measured);
  const std::string range = fmt::format("{} {}", range_of(speeds, measured), speeds.unit());
  if (!reason.empty()) return range + ", " + reason;
  return (ranked.known.size() < 2 ? range : compared_rows(speeds, ranked.known)) +
         rows_left_out(ranked.unknown, ranked.disturbed, at_times);
}

std::string scaling_answer(Rows rows) {
  const SeriesRows scaled = only(rows, [](const Series* row) {
    return row->scaling && row->scaling->kind != ScalingKind::kBase;
  });
  const SpeedComparison speeds(rows);
  std::vector<std::string> texts;
  for (const auto& [base_and_kind, alike] : grouped(scaled, [](const Series* row) {
         return std::pair(row->scaling->base, row->scaling->kind);
       })) {
    texts.push_back(scaling_text(alike, speeds));
  }
  return joined_texts(texts, "; ");
}

}  // namespace fsdp
