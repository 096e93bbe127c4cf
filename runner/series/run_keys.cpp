// Compares the keys of runs, and names a run by its changed keys.
#include "runner/series/run_keys.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "contract/spec/run_spec_yaml.h"
#include "runner/series/series.h"
#include "runner/table/names.h"

namespace fsdp {

Keys changed_keys(const RunSpec& other, const RunSpec& own, Effect most) {
  Keys changed;
  for (const RunSpecKey& key : run_spec_keys()) {
    const bool is_left_out = key.is_path || (key.effect && *key.effect <= most);
    if (!is_left_out && !key.is_equal(other, own)) changed[key.name] = key.yaml(own);
  }
  for (const Alternatives& two : alternatives()) {
    const auto one = changed.find(std::string(two.one));
    const auto another = changed.find(std::string(two.other));
    if (one == changed.end() || another == changed.end()) continue;
    changed.erase(one->second == "null" ? one : another);
  }
  return changed;
}

// --- names of runs outside their list ---

namespace {

using Place = std::pair<std::string, std::string>;  // an experiment, and its point or series

// Returns the differences of `row` from `other`, a run of the same point: "train.steps=20, other
// input files". Has the run's number if they are too many, or if none is found.
std::string what_changed(const ComparisonRow& other, const ComparisonRow& row) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : changed_keys(other.spec, row.spec, Effect::kHowOnly)) {
    texts.push_back(key + '=' + value);
  }
  if (row.data_digest != other.data_digest) texts.push_back("other input files");
  const bool needs_number = texts.empty() || texts.size() > kMostNamedKeys;
  return joined_texts(
      {first_names(texts, kMostNamedKeys), needs_number ? fmt::format("run {}", row.run) : ""},
      ", ");
}

Place place_of_point(const ComparisonRow& row) { return {row.experiment, row.point}; }

// Names the variants among the runs of one point. `taken` are the names of other rows.
void name_variants_of_point(const std::vector<ComparisonRow*>& rows, std::set<Place>& taken) {
  const auto are_listed = [](const ComparisonRow* row) { return row->current; };
  if (std::ranges::all_of(rows, are_listed)) return;
  const ComparisonRow other = **std::ranges::max_element(
      rows, {}, [](const ComparisonRow* row) { return std::pair(row->current, row->run); });
  for (ComparisonRow* row : rows) {
    if (row->current) continue;
    row->family.clear();
    row->family_key.clear();
    row->family_value.reset();
    if (row->run == other.run) continue;
    std::string changed = what_changed(other, *row);
    if (taken.contains({row->experiment, fmt::format("{} [{}]", row->point, changed)})) {
      changed += fmt::format(", run {}", row->run);
    }
    row->series = fmt::format("{} [{}]", series_name(*row), changed);
    row->point += fmt::format(" [{}]", changed);
    taken.insert(place_of_point(*row));
  }
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
  std::vector<ComparisonRow*> pointers;
  std::set<Place> taken;
  for (ComparisonRow& row : rows) {
    pointers.push_back(&row);
    if (row.current) taken.insert(place_of_point(row));
  }
  for (const auto& [place, alike] :
       grouped(pointers, [](const ComparisonRow* row) { return place_of_point(*row); })) {
    name_variants_of_point(alike, taken);
  }
}

}  // namespace fsdp
