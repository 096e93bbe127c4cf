#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runner/report/answers.h"
#include "runner/report/number_text.h"
#include "runner/report/speeds.h"

namespace fsdp {
namespace {

using nlohmann::json;
using Pointers = std::vector<json::json_pointer>;

// What a pair of rows may differ in.
struct Change {
  const char* question;
  Pointers keys;
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

json without(json spec, const Pointers& keys) {
  for (const json::json_pointer& key : keys) {
    const json::json_pointer parent = key.parent_pointer();
    if (spec.contains(key)) spec[parent].erase(key.back());
  }
  return spec;
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

// Each row against the first one that differs from it in nothing else.
std::string pairs_of(const Change& change, const std::vector<Settled>& rows) {
  constexpr size_t kMostPairs = 3;
  std::vector<std::string> texts;
  std::vector<std::pair<json, const Settled*>> plain;
  for (const Settled& row : rows) {
    json others = without(row.spec, change.keys);
    const auto known = std::ranges::find(plain, others, [](auto& entry) { return entry.first; });
    if (known == plain.end()) {
      plain.emplace_back(std::move(others), &row);
      continue;
    }
    const Settled& first = *known->second;
    if (first.spec.value(change.deciding, json()) == row.spec.value(change.deciding, json()))
      continue;
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
    json spec = json::parse(series->median.spec, nullptr, /*allow_exceptions=*/false);
    if (spec.is_object() && !series->median.family_value) {
      settled.push_back({series, std::move(spec)});
    }
  }
  std::vector<Answer> answers;
  for (const Change& change : kinds_of_change()) {
    answers.push_back({change.question, pairs_of(change, settled)});
  }
  return answers;
}

}  // namespace fsdp
