#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "runner/report/answers.h"
#include "runner/report/number_text.h"
#include "runner/report/row_spec.h"
#include "runner/report/speeds.h"

namespace fsdp {
namespace {

using nlohmann::json;

// What a pair of rows may differ in.
struct Change {
  const char* question;
  JsonPointers keys;
  json::json_pointer deciding;  // of these, the one by whose value the rows are ordered
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

// A row and what it was told to do.
struct Settled {
  const Series* series;
  json spec;
};

json value_at(const json& spec, const json::json_pointer& place) {
  return spec.contains(place) ? spec.at(place) : json();
}

std::string times(const char* what, std::optional<double> one, std::optional<double> other) {
  return one && other && *other > 0 ? fmt::format("{} {}", what, ratio(*one / *other)) : "";
}

// "FSDP batch 8 against 4xFSDP: tokens/s x1.24, memory x1.59"
std::string pair_text(const Series& changed, const Series& plain) {
  std::string speed =
      times("tokens/s", changed.median.tokens_per_second, plain.median.tokens_per_second);
  if (!speed.empty() && speed_against(changed, plain) == Speed::kNoDifference) {
    speed += " (within noise)";
  }
  const std::string memory = times("memory", changed.median.memory_allocated_bytes_max,
                                   plain.median.memory_allocated_bytes_max);
  std::vector<std::string> texts{memory, speed};
  std::erase(texts, "");
  if (texts.empty()) return "";
  return fmt::format("{} against {}: {}", changed.median.point, plain.median.point,
                     fmt::join(texts, ", "));
}

// Each row against the first one that differs from it in nothing else, on the same device.
std::string pairs_of(const Change& change, const std::vector<Settled>& rows) {
  constexpr size_t kMostPairs = 3;
  std::vector<std::string> texts;
  std::map<std::string, const Settled*> plain;  // by all that they have in common
  for (const Settled& row : rows) {
    const std::string others =
        without(row.spec, change.keys).dump() + row.series->median.device_name;
    const auto [known, is_first] = plain.emplace(others, &row);
    if (is_first) continue;
    const Settled& first = *known->second;
    if (value_at(first.spec, change.deciding) == value_at(row.spec, change.deciding)) continue;
    const std::string text = pair_text(*row.series, *first.series);
    if (!text.empty()) texts.push_back(text);
  }
  const size_t more = texts.size() - std::min(texts.size(), kMostPairs);
  texts.resize(texts.size() - more);
  std::string text = fmt::format("{}", fmt::join(texts, "; "));
  return more == 0 ? text : text + fmt::format("; and {} more pairs", more);
}

}  // namespace

std::vector<Answer> what_changes_bring(Rows rows) {
  std::vector<Settled> settled;
  for (const Series* series : finished_rows(rows)) {
    if (series->median.family_value) continue;
    json spec = row_spec(series->median);
    if (!spec.is_null()) settled.push_back({series, std::move(spec)});
  }
  std::vector<Answer> answers;
  for (const Change& change : kinds_of_change()) {
    answers.push_back({change.question, pairs_of(change, settled)});
  }
  return answers;
}

}  // namespace fsdp
