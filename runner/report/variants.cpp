#include "runner/report/variants.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <tuple>

#include "contract/spec/run_spec_keys.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/report/series.h"

namespace fsdp {
namespace {

using Keys = std::map<std::string, std::string>;
using Place = std::pair<std::string, std::string>;  // an experiment, and a point or a series of it

// Keys and sections that say how a run is carried out, or where a file is, and not what it is.
template <Fields Section>
void add_unnamed(std::vector<std::string>& keys, const Section& section,
                 const std::string& prefix) {
  Section::visit_fields(section, [&]<typename T>(const char* name, const T& member, const char*,
                                                 const Range&, auto... effect) {
    const bool is_how_only = ((effect == Effect::kHowOnly) || ...);
    if (is_how_only || std::same_as<T, std::filesystem::path>) {
      keys.push_back(prefix + name);
    } else if constexpr (Fields<T>) {
      add_unnamed(keys, member, prefix + name + '.');
    }
  });
}

bool is_named(const std::string& key) {
  static const std::vector<std::string> kUnnamed = [] {
    std::vector<std::string> keys;
    add_unnamed(keys, RunSpec{}, "");
    return keys;
  }();
  return std::ranges::none_of(kUnnamed,
                              [&](const std::string& other) { return is_at_or_below(key, other); });
}

// Empty where others wrote what cannot be read.
Keys keys_of(const ComparisonRow& row) {
  try {
    Keys keys;
    const RunSpec spec = run_spec_from_yaml(row.spec, {.name = "a specification", .folder = {}});
    for (const auto& [key, value] : keys_and_values(spec)) {
      if (is_named(key)) keys[key] = value;
    }
    return keys;
  } catch (const std::exception&) {
    return {};
  }
}

// What `own` has in the place of the other's. Of two keys of which one follows from the other it is
// that which was given, or the first.
Keys changed_keys(const Keys& other, const Keys& own) {
  Keys changed;
  for (const auto& [key, value] : own) {
    const auto before = other.find(key);
    if (before != other.end() && before->second != value) changed[key] = value;
  }
  for (const Alternatives& two : alternatives()) {
    const auto one = changed.find(std::string(two.one));
    const auto another = changed.find(std::string(two.other));
    if (one == changed.end() || another == changed.end()) continue;
    changed.erase(one->second == "null" ? one : another);
  }
  return changed;
}

std::string what_changed(const ComparisonRow& other, const ComparisonRow& row) {
  const Keys changed = changed_keys(keys_of(other), keys_of(row));
  std::vector<std::string> texts;
  for (const auto& [key, value] : changed) texts.push_back(key + '=' + value);
  if (row.data_digest != other.data_digest) texts.push_back("other input files");
  const bool is_cut = texts.size() > kMostNamedKeys;
  if (is_cut) {
    texts.resize(kMostNamedKeys);
    texts.push_back(fmt::format("{} more", changed.size() - kMostNamedKeys));
  }
  if (is_cut || texts.empty()) texts.push_back(fmt::format("run {}", row.run));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// What each point is compared with: its row in the list, else the newest.
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

// Behind the listed rows of the same series; those of none behind all of the experiment.
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
