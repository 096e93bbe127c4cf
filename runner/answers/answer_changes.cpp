#include <algorithm>
#include <cmath>
#include <map>

#include "runner/answers/answers.h"
#include "runner/series/run_keys.h"
#include "runner/series/speeds.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

using nlohmann::json;

constexpr const char* kNotCompared = "not compared by speed, as others took CPU time";

// A difference that a pair of rows may have.
struct Change {
  const char* question;
  JsonPointers keys;
  json::json_pointer deciding;  // the one of `keys` whose values must differ
};

const std::vector<Change>& kinds_of_change() {
  static const std::vector<Change> kChanges = [] {
    const auto at = [](const char* pointer) { return json::json_pointer(pointer); };
    const auto one = [&](const char* question, const char* pointer) {
      return Change{question, {at(pointer)}, at(pointer)};
    };
    return std::vector<Change>{{"Batch",
                                {at("/batch"), at("/train/steps"), at("/train/sequences")},
                                at("/batch/size_per_rank")},
                               one("Offload", "/strategy/offload"),
                               one("Recompute", "/activation_checkpointing"),
                               one("Sharding", "/strategy/sharding"),
                               one("Precision", "/precision")};
  }();
  return kChanges;
}

// A row and its specification.
struct SpecifiedRow {
  const Series* series;
  json spec;
};

json value_at(const json& spec, const json::json_pointer& place) {
  return spec.contains(place) ? spec.at(place) : json();
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
  return fmt::format("{} against {}: {}", quoted_if_list(pair.changed->name),
                     quoted_if_list(pair.plain->name), figures);
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
  const std::string figures =
      joined_texts({range_of_times("memory", pairs, &AttemptSummary::memory_allocated_bytes_max),
                    speed, disturbed > 0 ? fmt::format("{} {}", disturbed, kNotCompared) : ""},
                   ", ");
  return figures.empty() ? "" : fmt::format("over {} pairs of rows: {}", pairs.size(), figures);
}

// Compares each row with the first one that differs in nothing else, on the same device.
std::string pairs_of(const Change& change, const std::vector<SpecifiedRow>& rows,
                     const SpeedComparison& speeds) {
  constexpr size_t kMostPairs = 3;
  std::vector<Pair> pairs;
  std::map<std::string, const SpecifiedRow*> plain;  // by everything that they have in common
  for (const SpecifiedRow& row : rows) {
    const std::string others =
        without(row.spec, change.keys).dump() + row.series->median.device_name;
    const auto [known, is_first] = plain.emplace(others, &row);
    if (is_first) continue;
    const SpecifiedRow& first = *known->second;
    if (value_at(first.spec, change.deciding) == value_at(row.spec, change.deciding)) continue;
    pairs.push_back({row.series, first.series});
  }
  if (pairs.size() > kMostPairs) return many_pairs_text(pairs, speeds);
  std::vector<std::string> texts;
  for (const Pair& pair : pairs) texts.push_back(pair_text(pair, speeds));
  return joined_texts(texts, "; ");
}

}  // namespace

std::vector<Answer> change_answers(Rows rows) {
  std::vector<SpecifiedRow> specified;
  for (const Series* series : rows_that_fit(rows)) {
    if (series->median.family_value) continue;
    json spec = row_spec(series->median);
    if (!spec.is_null()) specified.push_back({series, std::move(spec)});
  }
  const SpeedComparison speeds(rows);
  std::vector<Answer> answers;
  for (const Change& change : kinds_of_change()) {
    answers.push_back({change.question, pairs_of(change, specified, speeds)});
  }
  return answers;
}

}  // namespace fsdp
