#include "runner/report/variants.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "runner/report/changed_keys.h"
#include "runner/report/series.h"

namespace fsdp {
namespace {

using Place = std::pair<std::string, std::string>;  // an experiment, and its point or series

std::string what_changed(const ComparisonRow& other, const ComparisonRow& row) {
  const Keys changed =
      changed_keys(keys_beyond(Effect::kHowOnly, other), keys_beyond(Effect::kHowOnly, row));
  std::vector<std::string> texts;
  for (const auto& [key, value] : changed) texts.push_back(key + '=' + value);
  if (row.data_digest != other.data_digest) texts.push_back("other input files");
  const bool is_cut = texts.size() > kMostNamedKeys;
  if (is_cut) {
    const size_t left_out = texts.size() - kMostNamedKeys;
    texts.resize(kMostNamedKeys);
    texts.push_back(fmt::format("{} more", left_out));
  }
  if (is_cut || texts.empty()) texts.push_back(fmt::format("run {}", row.run));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Returns the row with which each point is compared: its listed row, else the newest.
std::map<Place, ComparisonRow> rows_of_points(const std::vector<ComparisonRow>& rows) {
  std::map<Place, ComparisonRow> known;
  for (const ComparisonRow& row : rows) {
    const auto [found, is_new] = known.try_emplace({row.experiment, row.point}, row);
    ComparisonRow& other = found->second;
    if (!is_new && std::pair(row.current, row.run) > std::pair(other.current, other.run)) {
      other = row;
    }
  }
  return known;
}

// Moves each row behind the listed rows of its series, or else to the end of its experiment.
void put_in_order(std::vector<ComparisonRow>& rows) {
  std::map<std::string, size_t> experiments;
  std::map<Place, size_t> listed;
  for (const ComparisonRow& row : rows) {
    experiments.emplace(row.experiment, experiments.size());
    if (row.current) listed.emplace(Place(row.experiment, series_name(row)), listed.size());
  }
  std::ranges::stable_sort(rows, {}, [&](const ComparisonRow& row) {
    const auto place = listed.find({row.experiment, series_name(row)});
    return std::tuple(experiments.at(row.experiment),
                      place == listed.end() ? listed.size() : place->second,
                      row.current ? 0 : row.run);
  });
}

}  // namespace

void name_variants(std::vector<ComparisonRow>& rows) {
  put_in_order(rows);
  const std::map<Place, ComparisonRow> known = rows_of_points(rows);
  std::set<Place> names;
  for (ComparisonRow& row : rows) {
    if (row.current) names.emplace(row.experiment, row.point);
  }
  for (ComparisonRow& row : rows) {
    if (row.current) continue;
    row.family.clear();
    row.family_key.clear();
    row.family_value.reset();
    const ComparisonRow& other = known.at({row.experiment, row.point});
    if (other.run == row.run) continue;
    std::string changed = what_changed(other, row);
    if (names.contains({row.experiment, fmt::format("{} [{}]", row.point, changed)})) {
      changed += fmt::format(", run {}", row.run);
    }
    row.series = fmt::format("{} [{}]", series_name(row), changed);
    row.point += fmt::format(" [{}]", changed);
    names.emplace(row.experiment, row.point);
  }
}

}  // namespace fsdp
