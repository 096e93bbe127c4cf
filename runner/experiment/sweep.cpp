// Reads sweeps, and lists their combinations in the order of the file.
#include "runner/experiment/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_set>

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {
namespace {

// Values that are given together, one per key.
using Row = std::vector<YamlEntry>;
// Alternative rows. A combination has one row of each axis.
using Axis = std::vector<Row>;

// A key with several values.
struct ValueList {
  YamlEntry entry;
  std::vector<YamlEntry> items;
};

// Returns the last component of a dotted key.
std::string label_of(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// A list's item as the value of the list's key.
YamlEntry item_of(const YamlEntry& list, const YAML::Node& value) {
  return {list.key, value, list.path, list.origin};
}

// The text of a value: "4", "null", or "a,b" for a list.
std::string text_of(const YAML::Node& value) {
  if (!value.IsSequence()) return value.IsNull() ? "null" : value.Scalar();
  std::string text;
  for (const YAML::Node& item : value) text += (text.empty() ? "" : ",") + item.Scalar();
  return text;
}

SweepValue read_sweep_value(const YamlEntry& entry) {
  if (entry.value.IsMap()) {
    refuse_value(entry, "a map is not one value; allowed: one of the keys below '" + entry.path +
                            "', dotted, with a list of values");
  }
  SweepValue value{.key = entry.path,
                   .label = label_of(entry.path),
                   .text = text_of(entry.value),
                   .place = entry.value_place()};
  value.overrides.add(entry);
  if (holds_control_characters(value.text)) {
    refuse_value(entry,
                 "holds a control character, but would become part of a run's name; remove it");
  }
  return value;
}

// The keys of `product` or `zip`.
std::vector<ValueList> read_lists(const YamlEntry& form) {
  require_map(form, "dotted keys to lists of values");
  std::vector<ValueList> lists;
  for (const YamlEntry& list : entries(form.value, form.origin, "", form.value_place())) {
    require_list(list, "values");
    lists.push_back({list, items_of(list, "value")});
  }
  if (lists.empty()) {
    refuse_value(form, "is empty; allowed: at least one key with a list of values");
  }
  return lists;
}

// The values of `entry` as entries of their own: a list's items, or the one value.
std::vector<YamlEntry> values_of(const YamlEntry& entry) {
  return entry.value.IsSequence() ? items_of(entry, "value") : std::vector{entry};
}

DoublingRange read_range(const YamlEntry& entry) {
  constexpr const char* kSection = "sweep.double.KEY";
  require_map(entry, "keys: " + joined(experiment_key_names(kSection)));
  const Section keys = read_section(entry, kSection);
  DoublingRange range;
  keys.read("from", range.from, at_least(1));
  keys.read("to", range.to, at_least(1));
  keys.read("refine", range.refine, any_value());
  if (!keys.find("from")) {
    refuse_value(entry, "has no `from`; allowed: from: N, the first value");
  }
  if (range.to && *range.to < range.from) {
    refuse_value(entry, fmt::format("ends at {0}, below its `from` {1}; allowed: at least {1}",
                                    *range.to, range.from));
  }
  return range;
}

DoubledKey read_doubled_key(const YamlEntry& entry) {
  require_map(entry, "one key, such as batch.size_per_rank: {from: 1}");
  const auto keys = entries(entry.value, entry.origin, entry.path + '.', entry.value_place());
  if (keys.size() != 1) {
    refuse_value(entry, "has " + counted(std::ssize(keys), "key") + "; allowed: one");
  }
  const YamlEntry& range = keys.front();
  const std::string& key = range.key.Scalar();
  DoubledKey doubled{
      .key = key, .label = label_of(key), .place = range.value_place(), .range = read_range(range)};
  for (const char* end : {"from", "to"}) {  // refuses an unknown key, and values it cannot have
    if (range.value[end]) Overrides().add({range.key, range.value[end], key, range.origin});
  }
  if (!is_integer_key(key)) {
    throw ConfigError(range.key_place(), key,
                      "holds no integer; allowed: a key that does, such as batch.size_per_rank");
  }
  return doubled;
}

Axis read_product_key(const ValueList& list) {
  Axis axis;
  std::unordered_set<std::string> texts;
  for (const YamlEntry& item : list.items) {
    axis.push_back({item});
    if (!item.value.IsScalar() && !item.value.IsNull()) continue;  // refused when it is read
    if (!texts.insert(text_of(item.value)).second) {
      refuse_value(item, "'" + text_of(item.value) + "' comes twice; allowed: once");
    }
  }
  return axis;
}

Axis read_zip(const YamlEntry& form) {
  const std::vector<ValueList> lists = read_lists(form);
  const ValueList& first = lists.front();
  Axis axis(first.items.size());
  for (const auto& [entry, items] : lists) {
    if (items.size() != axis.size()) {
      refuse_value(
          entry,
          fmt::format("has {}, but '{}' has {}; the lists of one zip have equally many values",
                      counted(std::ssize(items), "value"), first.entry.path, axis.size()));
    }
    for (size_t i = 0; i < axis.size(); ++i) axis[i].push_back(items[i]);
  }
  return axis;
}

// Each row has the keys of one item.
Axis read_include(const YamlEntry& form) {
  require_list(form, "maps of dotted keys to a value");
  Axis axis;
  for (const YamlEntry& item : items_of(form, "map")) {
    require_map(item, "dotted keys to a value");
    axis.push_back(entries(item.value, item.origin, "", item.value_place()));
    if (axis.back().empty()) refuse_value(item, "is empty; allowed: at least one key with a value");
  }
  return axis;
}

std::vector<Exclusion> read_exclude(const YamlEntry& form) {
  require_list(form, "maps of what is left out");
  std::vector<Exclusion> exclusions;
  for (const YamlEntry& item : items_of(form, "map")) exclusions.emplace_back(item);
  return exclusions;
}

Repeats read_repeats(const YamlEntry& form) {
  constexpr const char* kSection = "sweep.repeats";
  Repeats repeats;
  const Range range = from_to(1, kMaximumRuns);
  if (!form.value.IsMap()) {
    read_value(
        repeats.count, form, range,
        allowed_values<int64_t>(range) + ", or a map of " + joined(experiment_key_names(kSection)));
    return repeats;
  }
  const Section keys = read_section(form, kSection);
  keys.read("count", repeats.count, range);
  keys.read("change_seed", repeats.change_seed, any_value());
  if (!keys.find("count")) refuse_value(form, "has no count; allowed: count: N");
  return repeats;
}

// Refuses axes that give a value to the same key, or to two keys that are alternatives.
void check_axes_agree(const std::vector<Axis>& axes) {
  const auto gives_all = [](const Row& row) {
    return std::ranges::none_of(row, [](const YamlEntry& entry) { return entry.value.IsNull(); });
  };
  for (const Axis& varied : axes) {
    for (const Row& row : varied) {
      Overrides all;
      for (const Axis& axis : axes) {
        const auto given = std::ranges::find_if(axis, gives_all);
        const Row& representative = given == axis.end() ? axis.front() : *given;
        for (const YamlEntry& entry : &axis == &varied ? row : representative) all.add(entry);
      }
    }
  }
}

// Combines each of `outer` with each row of `axis`. Adds the axis's values to `block`.
std::vector<Combination> crossed(const std::vector<Combination>& outer, const Axis& axis,
                                 const YamlEntry& form, SweepBlock& block) {
  if (axis.size() > kMaximumRuns / outer.size()) {
    refuse_value(form, fmt::format("has more combinations than allowed: at most {}", kMaximumRuns));
  }
  std::vector<Combination> rows;
  for (const Row& row : axis) {
    Combination& numbers = rows.emplace_back();
    for (const YamlEntry& entry : row) {
      numbers.push_back(block.values.size());
      block.values.push_back(read_sweep_value(entry));
    }
  }
  std::vector<Combination> combinations;
  combinations.reserve(outer.size() * rows.size());
  for (const Combination& before : outer) {
    for (const Combination& row : rows) {
      std::ranges::copy(row, std::back_inserter(combinations.emplace_back(before)));
    }
  }
  return combinations;
}

// The doubled key as an axis of one value, for the checks over all axes.
Axis axis_of_double(const YamlEntry& form) {
  const YamlEntry range = entries(form.value, form.origin, "", form.value_place()).front();
  return {{item_of(range, range.value["from"])}};
}

SweepBlock read_block(const YamlEntry& entry) {
  const std::string forms = joined(experiment_key_names("sweep"));
  require_map(entry, "one or more of: " + forms);
  const Section section = read_section(entry, "sweep");
  if (section.entries.empty()) refuse_value(entry, "is empty; allowed: one or more of: " + forms);
  SweepBlock block{.place = entry.value_place()};
  std::vector<Axis> axes;
  std::vector<Axis> doubled;  // none or one
  const auto add_axis = [&](const YamlEntry& form, Axis axis) {
    block.combinations = crossed(block.combinations, axis, form, block);
    axes.push_back(std::move(axis));
  };
  for (const YamlEntry& form : section.entries) {
    const std::string& name = form.key.Scalar();
    if (name == "product") {
      for (const ValueList& list : read_lists(form)) add_axis(form, read_product_key(list));
    } else if (name == "zip") {
      add_axis(form, read_zip(form));
    } else if (name == "exclude") {
      block.exclusions = read_exclude(form);
    } else if (name == "repeats") {
      block.repeats = read_repeats(form);
    } else if (name == "double") {
      block.doubled = read_doubled_key(form);
      doubled.push_back(axis_of_double(form));
    }
  }
  const bool is_included_only = axes.empty();
  std::ranges::copy(doubled, std::back_inserter(axes));
  check_axes_agree(axes);
  if (const YamlEntry* include = section.find("include")) {
    if (is_included_only) block.combinations.clear();
    doubled.push_back(read_include(*include));
    std::ranges::move(crossed({{}}, doubled.back(), *include, block),
                      std::back_inserter(block.combinations));
    check_axes_agree(doubled);
  }
  return block;
}

void lengthen_ambiguous_labels(SweepBlocks& blocks) {
  const auto visit_labels = [&](const auto& visit) {
    for (SweepBlock& block : blocks) {
      for (SweepValue& value : block.values) visit(value.label, value.key);
      if (block.doubled) visit(block.doubled->label, block.doubled->key);
    }
  };
  std::map<std::string, std::set<std::string>> keys;
  visit_labels([&](std::string& label, const std::string& key) { keys[label].insert(key); });
  visit_labels([&](std::string& label, const std::string& key) {
    if (keys.at(label).size() > 1) label = key;
  });
}

}  // namespace

Exclusion::Exclusion(const YamlEntry& entry) : place_(entry.value_place()) {
  require_map(entry, "keys of a run, or point, to a value or a list of values");
  const auto keys = entries(entry.value, entry.origin, "", place_);
  if (keys.empty())
    refuse_value(entry, "is empty, and would leave out every run; give a key, or remove the item");
  for (const YamlEntry& key : keys) {
    if (key.path != "point") {
      read_key(key);
      continue;
    }
    for (const YamlEntry& name : values_of(key)) {
      points_.emplace(read_text(name), name.value_place());
    }
  }
}

void Exclusion::read_key(const YamlEntry& entry) {
  if (entry.value.IsMap()) {
    for (const YamlEntry& key :
         entries(entry.value, entry.origin, entry.path + '.', entry.value_place())) {
      read_key(key);
    }
    return;
  }
  std::vector<Overrides>& values = keys_.emplace_back();
  for (const YamlEntry& value : values_of(entry)) {
    if (Expression::is_meant(value.value)) {
      refuse_value(value, "'" + value.value.Scalar() + "' is an expression; allowed: a value");
    }
    values.emplace_back().add(value);
  }
}

void Exclusion::check_points(const std::vector<std::string>& names) const {
  for (const auto& [name, place] : points_) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw ConfigError(
        place, "point",
        "'" + name + "' is no point" + hint_and_allowed(suggestion(name, names), names));
  }
}

bool Exclusion::matches(const std::string& point, const RunSpec& spec) const {
  if (!points_.empty() && !points_.contains(point)) return false;
  return std::ranges::all_of(keys_, [&](const std::vector<Overrides>& values) {
    return std::ranges::any_of(values, [&](const Overrides& value) { return value.matches(spec); });
  });
}

Overrides DoubledKey::with(int64_t value) const {
  Overrides overrides;
  const YamlOrigin origin{.name = place, .folder = {}, .has_lines = false};
  overrides.add({YAML::Node(key), YAML::Node(std::to_string(value)), key, origin});
  return overrides;
}

std::string DoubledKey::suffix(int64_t value) const { return fmt::format(" {}={}", label, value); }

std::string SweepBlock::suffix(const Combination& combination) const {
  std::string text;
  for (const size_t number : combination) {
    text += fmt::format(" {}={}", values[number].label, values[number].text);
  }
  return text;
}

const std::string& SweepBlock::place_of(const Combination& combination) const {
  return combination.empty() ? place : values[combination.back()].place;
}

SweepBlocks read_sweep(const YamlEntry& entry) {
  SweepBlocks blocks;
  if (entry.value.IsSequence()) {
    for (const YamlEntry& item : items_of(entry, "block")) blocks.push_back(read_block(item));
  } else {
    blocks.push_back(read_block(entry));
  }
  lengthen_ambiguous_labels(blocks);
  return blocks;
}

std::vector<YamlEntry> items_of(const YamlEntry& list, const std::string& one) {
  if (list.value.size() == 0) refuse_value(list, "is an empty list; allowed: at least one " + one);
  std::vector<YamlEntry> items;
  for (const YAML::Node& value : list.value) items.push_back(item_of(list, value));
  return items;
}

}  // namespace fsdp
