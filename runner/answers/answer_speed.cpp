#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text/json.h"
#include "contract/spec/yaml_value.h"
#include "runner/answers/answers.h"
#include "runner/series/run_keys.h"
#include "runner/series/speeds.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

// The answers to three questions: which rows are fastest, how do they scale, and what does each
// change bring?
namespace fsdp {
namespace {

// Returns why no row can be called fastest. Empty if the rows can be compared.
std::string not_comparable(const SeriesRows& rows) {
  std::set<std::string> devices, models;  // "": not known
  for (const Series* series : rows) {
    models.insert(series->spec.contains("model") ? series->spec.at("model").dump() : "");
    for (const ComparisonRow* run : series->runs) {
      if (is_finished(run)) devices.insert(run->device_name);
    }
  }
  const auto reason = [](std::set<std::string> values, const char* different,
                         const char* unknown) -> std::string {
    if (values.size() < 2) return "";
    return fmt::format("no row is called fastest, because {}",
                       values.erase("") > 0 && values.size() < 2 ? unknown : different);
  };
  const std::string of_devices = reason(devices, "the rows ran on different devices",
                                        "the devices of some rows are not known");
  if (!of_devices.empty()) return of_devices;
  return reason(models, "the rows have different models", "the models of some rows are not known");
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

// Returns the rows that no other row beats. They tie within noise, because none beats another.
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

// "next is A, with 1000" or "next are A and C, with 950 to 1000, equal within noise"
std::string next_rows(const SpeedComparison& speeds, const SeriesRows& from_fastest) {
  const SeriesRows next = fastest_of(speeds, {from_fastest.begin() + 1, from_fastest.end()});
  const std::string text = fmt::format("next {} {}, with {}", next.size() == 1 ? "is" : "are",
                                       names_in_words(points_of(next)), range_of(speeds, next));
  return next.size() == 1 ? text : text + ", equal within noise";
}

std::string fastest_row(const SpeedComparison& speeds, const SeriesRows& from_fastest) {
  const Series& first = *from_fastest.front();
  const std::string of_baseline = against_baseline(speeds, first);
  return fmt::format("{} is fastest, with {} {}{}; {}", quoted_if_unclear(first.name),
                     short_number(speeds.speed_of(first)), speeds.unit(),
                     of_baseline.empty() ? "" : " (" + of_baseline + ")",
                     next_rows(speeds, from_fastest));
}

// Describes at least two rows that can be compared.
std::string compared_rows(const SpeedComparison& speeds, const SeriesRows& from_fastest) {
  const SeriesRows fastest = fastest_of(speeds, from_fastest);
  if (fastest.size() == 1) return fastest_row(speeds, from_fastest);
  if (fastest.size() == from_fastest.size()) {
    return fmt::format("no difference exceeds the noise: {} {}", range_of(speeds, from_fastest),
                       speeds.unit());
  }
  return fmt::format("{} are fastest, with {} {}, equal within noise",
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

// Lists the rows that are not ranked although they have a speed, with the reasons.
std::string rows_left_out(const SeriesRows& unknown, const SeriesRows& disturbed,
                          const SeriesRows& not_fitting) {
  std::string text;
  if (!unknown.empty()) {
    text += fmt::format("; not ranked, because of too few steps: {} (raise train.steps)",
                        names_in_words(points_of(unknown)));
  }
  if (!disturbed.empty()) {
    text += fmt::format(
        "; not ranked, because other processes took CPU time: {} (run again on a quiet host)",
        names_in_words(points_of(disturbed)));
  }
  if (!not_fitting.empty()) {
    text += fmt::format("; not ranked, because repeats ran out of memory: {}",
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
    return quoted_if_unclear(row.name) + " not known (other processes took CPU time)";
  }
  const std::string percent =
      whole_percent(*scaling_efficiency_percent(row.scaling, row.median)) + " %";
  const char* doubt = speed == Speed::kNoDifference  ? " (within noise of 100 %)"
                      : speed == Speed::kTooFewSteps ? " (too few steps to tell)"
                                                     : "";
  return fmt::format("{} {}{}", quoted_if_unclear(row.name), percent, doubt);
}

bool has_fewer_threads(const Series* row) {
  const std::optional<int64_t>& threads = row->median.threads;
  const std::optional<int64_t>& of_base = row->scaling->base->median.threads;
  return threads && of_base && *threads < *of_base;
}

// Describes rows with the same base and the same kind of scaling.
std::string scaling_text(const SeriesRows& rows, const SpeedComparison& speeds) {
  constexpr size_t kMostScalingRows = 4;
  const Scaling& scaling = *rows.front()->scaling;
  const auto texts = mapped(rows, [&](const Series* row) { return efficiency_of(*row, speeds); });
  std::string text = fmt::format(
      "{}, tokens/s of a rank relative to {}: {}",
      scaling.kind == ScalingKind::kWeak ? "weak scaling (the total batch grows with the ranks)"
                                         : "strong scaling (the total batch stays the same)",
      quoted_if_unclear(scaling.base->name), first_names(texts, kMostScalingRows));
  if (std::ranges::any_of(rows, has_fewer_threads))
    text += "; ranks of some rows have fewer CPU threads";
  return text;
}

// --- the price of a change ---

using nlohmann::json;

constexpr const char* kNotCompared = "not compared by speed, because other processes took CPU time";

// A kind of difference between two rows.
struct Change {
  const char* question;
  JsonPointers keys;            // may differ
  json::json_pointer deciding;  // must differ; at or below one of `keys`
};

const std::vector<Change>& kinds_of_change() {
  static const std::vector<Change> kChanges = [] {
    const auto at = [](const char* pointer) { return json::json_pointer(pointer); };
    const auto one = [&](const char* question, const char* pointer) {
      return Change{question, {at(pointer)}, at(pointer)};
    };
    return std::vector<Change>{
        {"Batch",
         {at("/batch"), at("/train/steps"), at("/train/sequences")},
         at("/batch/size_per_rank")},
        one("Offload", "/strategy/offload"),
        one("Recompute", "/activation_checkpointing"),
        one("Sharding", "/strategy/sharding"),
        one("Precision", "/precision"),
        {"Method", {at("/method"), at("/lora"), at("/optimizer/learning_rate")}, at("/method")}};
  }();
  return kChanges;
}

// Returns the key's value, or its default if the specification is older than the key.
json value_at(const json& spec, const json::json_pointer& place) {
  static const json kDefaults = json::parse(json_text(RunSpec()));
  return (spec.contains(place) ? spec : kDefaults).at(place);
}

struct Pair {
  const Series* changed;
  const Series* plain;
};

// Returns the changed row's figure / the plain row's. nullopt if one of them is not known.
std::optional<double> change_of(const Pair& pair, auto figure) {
  const std::optional<double> one = pair.changed->median.*figure;
  const std::optional<double> other = pair.plain->median.*figure;
  const bool is_known =
      one && other && *one > 0 && *other > 0 && std::isfinite(*one) && std::isfinite(*other);
  return is_known ? std::optional(*one / *other) : std::nullopt;
}

std::string times(std::string_view what, std::optional<double> change) {
  return change ? fmt::format("{} {}", what, ratio(change)) : "";
}

// "FSDP batch 8 against 4xFSDP: tokens/s x1.24, memory x1.59"
std::string pair_text(const Pair& pair, const SpeedComparison& speeds) {
  std::string speed = times(speeds.unit(), change_of(pair, speeds.figure()));
  if (!speed.empty()) {
    const Speed known = speeds.against(*pair.changed, *pair.plain);
    if (known == Speed::kNoDifference) speed += " (within noise)";
    if (known == Speed::kTooFewSteps) speed += " (too few steps to tell)";
    if (known == Speed::kDisturbed) speed = kNotCompared;
  }
  const std::string memory =
      times("memory", change_of(pair, &AttemptSummary::memory_allocated_bytes_max));
  const std::string figures = joined_texts({memory, speed}, ", ");
  if (figures.empty()) return "";
  return fmt::format("{} against {}: {}", quoted_if_unclear(pair.changed->name),
                     quoted_if_unclear(pair.plain->name), figures);
}

// "memory x1.01 to x1.27", over pairs with both figures; empty: there are none.
std::string range_of_times(std::string_view what, const std::vector<Pair>& pairs, auto figure) {
  std::vector<double> ratios;
  for (const Pair& pair : pairs) {
    const std::optional<double> change = change_of(pair, figure);
    if (change) ratios.push_back(*change);
  }
  if (ratios.empty()) return "";
  const auto [least, most] = std::ranges::minmax(ratios);
  return fmt::format("{} {} to {}", what, ratio(least), ratio(most));
}

// " (5 within noise, 1 with too few steps to tell)", over pairs with both speeds.
std::string doubts_of(const std::vector<Pair>& pairs, const SpeedComparison& speeds) {
  std::map<Speed, int> counts;
  for (const Pair& pair : pairs) {
    if (change_of(pair, speeds.figure())) ++counts[speeds.against(*pair.changed, *pair.plain)];
  }
  std::string text;
  for (const auto& [speed, words] :
       {std::pair(Speed::kNoDifference, "within noise"),
        std::pair(Speed::kTooFewSteps, "with too few steps to tell")}) {
    if (counts[speed] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counts[speed], words);
  }
  return text.empty() ? "" : fmt::format(" ({})", text);
}

// "over 12 pairs of rows: memory x1.01 to x1.27, tokens/s x1.54 to x4.15 (5 within noise)"
std::string many_pairs_text(const std::vector<Pair>& pairs, const SpeedComparison& speeds) {
  std::vector<Pair> compared = pairs;
  const size_t disturbed = std::erase_if(compared, [&](const Pair& pair) {
    return speeds.against(*pair.changed, *pair.plain) == Speed::kDisturbed;
  });
  std::string speed = range_of_times(speeds.unit(), compared, speeds.figure());
  if (!speed.empty()) speed += doubts_of(compared, speeds);
  const std::string figures = joined_texts(
      {range_of_times("memory", pairs, &AttemptSummary::memory_allocated_bytes_max), speed,
       disturbed > 0 ? counted(static_cast<int64_t>(disturbed), "pair") + ' ' + kNotCompared : ""},
      ", ");
  return figures.empty() ? "" : fmt::format("over {} pairs of rows: {}", pairs.size(), figures);
}

// Compares each row with the first row on the same device that differs only in this change.
std::string pairs_of(const Change& change, const SeriesRows& rows, const SpeedComparison& speeds) {
  constexpr size_t kMostPairs = 3;
  std::vector<Pair> pairs;
  std::map<std::string, const Series*> plain;  // first rows, by device and all other keys
  for (const Series* row : rows) {
    const std::string others = without(row->spec, change.keys).dump() + row->median.device_name;
    const auto [known, is_first] = plain.emplace(others, row);
    const Series* first = known->second;
    if (is_first || value_at(first->spec, change.deciding) == value_at(row->spec, change.deciding))
      continue;
    pairs.push_back({row, first});
  }
  if (pairs.size() > kMostPairs) return many_pairs_text(pairs, speeds);
  return joined_texts(mapped(pairs, [&](const Pair& pair) { return pair_text(pair, speeds); }),
                      "; ");
}

}  // namespace

BestRows fastest_rows(Rows rows) {
  const SpeedComparison speeds(rows);
  const auto [known, unknown, disturbed] = ranked_rows(speeds);
  const bool are_comparable =
      known.size() > 1 && unknown.empty() && disturbed.empty() && not_comparable(known).empty();
  BestRows best{are_comparable ? fastest_of(speeds, known) : known, speeds.column_name()};
  if (best.rows.size() == known.size()) best.rows.clear();
  return best;
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
  if (!reason.empty()) return range + "; " + reason;
  return (ranked.known.size() < 2 ? range : compared_rows(speeds, ranked.known)) +
         rows_left_out(ranked.unknown, ranked.disturbed, at_times);
}

std::string scaling_answer(Rows rows) {
  const SeriesRows scaled = only(rows, [](const Series* row) {
    return row->scaling && row->scaling->kind != ScalingKind::kBase;
  });
  const SpeedComparison speeds(rows);
  const auto base_and_kind = [](const Series* row) {
    return std::pair(row->scaling->base, row->scaling->kind);
  };
  return joined_texts(mapped(grouped(scaled, base_and_kind),
                             [&](const auto& alike) { return scaling_text(alike.second, speeds); }),
                      "; ");
}

std::vector<Answer> change_answers(Rows rows) {
  const SeriesRows specified = only(rows_that_fit(rows), [](const Series* series) {
    return !series->median.family_value && !series->spec.is_null();
  });
  const SpeedComparison speeds(rows);
  return mapped(kinds_of_change(), [&](const Change& change) {
    return Answer{change.question, pairs_of(change, specified, speeds)};
  });
}

}  // namespace fsdp
