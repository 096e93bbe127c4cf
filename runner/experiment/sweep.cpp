#include "runner/experiment/sweep.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "contract/spec/run_spec_keys.h"
#include "contract/text/config_error.h"
#include "contract/text/utf8.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {
namespace {

// Values that are given together: one per key.
using Row = std::vector<YamlEntry>;
// Rows of which a combination has one.
using Axis = std::vector<Row>;

// A list's item as the value of the list's key.
YamlEntry item_of(const YamlEntry& list, const YAML::Node& value) {
  return {list.key, value, list.path, list.origin};
}

// "4", "null"; of a list "a,b".
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
                   .label = entry.path.substr(entry.path.rfind('.') + 1),
                   .text = "",
                   .place = entry.value_place(),
                   .overrides = {}};
  value.overrides.add(entry);
  value.text = text_of(entry.value);
  if (holds_control_characters(value.text)) {
    refuse_value(entry, "holds a control character, and would be part of a run's name");
  }
  return value;
}

// The keys of `product` or `zip`, each with its list of values.
std::vector<YamlEntry> read_lists(const YamlEntry& form) {
  require_map(form, "dotted keys to lists of values");
  std::vector<YamlEntry> lists;
  for (const YamlEntry& list : entries(form.value, form.origin, "", form.value_place())) {
    require_list(list, "values");
    if (list.value.size() == 0) refuse_value(list, "is an empty list; allowed: at least one value");
    lists.push_back(list);
  }
  if (lists.empty())
    refuse_value(form, "is empty; allowed: at least one key with a list of values");
  return lists;
}

Axis read_product_key(const YamlEntry& list) {
  Axis axis;
  std::unordered_set<std::string> texts;
  for (const YAML::Node& value : list.value) {
    const YamlEntry item = item_of(list, value);
    axis.push_back({item});
    if (!value.IsScalar() && !value.IsNull()) continue;  // refused when it is read
    if (!texts.insert(text_of(value)).second) {
      refuse_value(item, "'" + text_of(value) + "' comes twice; allowed: once");
    }
  }
  return axis;
}

Axis read_zip(const YamlEntry& form) {
  const std::vector<YamlEntry> lists = read_lists(form);
  const size_t length = lists.front().value.size();
  for (const YamlEntry& list : lists) {
    if (list.value.size() == length) continue;
    refuse_value(list, "has " + counted(static_cast<int64_t>(list.value.size()), "value") +
                           ", but '" + lists.front().path + "' has " + std::to_string(length) +
                           "; lists that are advanced together have equally many");
  }
  Axis axis;
  for (size_t i = 0; i < length; ++i) {
    Row& row = axis.emplace_back();
    for (const YamlEntry& list : lists) row.push_back(item_of(list, list.value[i]));
  }
  return axis;
}

// Each row has the keys of one item.
Axis read_include(const YamlEntry& form) {
  require_list(form, "maps of dotted keys to a value");
  if (form.value.size() == 0) refuse_value(form, "is an empty list; allowed: at least one map");
  Axis axis;
  for (const YAML::Node& node : form.value) {
    const YamlEntry item = item_of(form, node);
    require_map(item, "dotted keys to a value");
    axis.push_back(entries(node, form.origin, "", item.value_place()));
    if (axis.back().empty()) refuse_value(item, "is empty; allowed: at least one key with a value");
  }
  return axis;
}

std::vector<Exclusion> read_exclude(const YamlEntry& form) {
  require_list(form, "maps of what is left out");
  if (form.value.size() == 0) refuse_value(form, "is an empty list; allowed: at least one map");
  std::vector<Exclusion> exclusions;
  for (const YAML::Node& node : form.value) exclusions.emplace_back(item_of(form, node));
  return exclusions;
}

Repeats read_repeats(const YamlEntry& form) {
  Repeats repeats;
  const Range range = from_to(1, kMaximumRuns);
  if (!form.value.IsMap()) {
    read_value(repeats.count, form, range,
               allowed_values<int64_t>(range) + ", or a map of " +
                   joined(experiment_key_names("sweep.repeats")));
    return repeats;
  }
  bool has_count = false;
  for (const YamlEntry& key :
       entries(form.value, form.origin, form.path + '.', form.value_place())) {
    if (key.key.Scalar() == "count") {
      read_value(repeats.count, key, range);
      has_count = true;
    } else if (key.key.Scalar() == "change_seed") {
      repeats.change_seed = read_bool(key);
    } else {
      const std::vector<std::string> names = experiment_key_names("sweep.repeats");
      refuse_unknown_key(key, names, suggestion(key.key.Scalar(), names));
    }
  }
  if (!has_count) refuse_value(form, "has no count; allowed: count: N");
  return repeats;
}

// Refuses two axes of one key, and of two keys that are alternatives, wherever both give a value.
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

// Every combination of one of `outer` and one row of `axis`, whose values are added to the block's.
std::vector<Combination> crossed(std::vector<Combination> outer, const Axis& axis,
                                 const YamlEntry& form, SweepBlock& block) {
  if (axis.size() > kMaximumRuns / outer.size()) {
    refuse_value(form,
                 "has more combinations than allowed: at most " + std::to_string(kMaximumRuns));
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
      combinations.push_back(before);
      combinations.back().insert(combinations.back().end(), row.begin(), row.end());
    }
  }
  return combinations;
}

// The doubled key as an axis of one value, for what is checked of all axes.
Axis axis_of_double(const YamlEntry& form) {
  const YamlEntry range = entries(form.value, form.origin, "", form.value_place()).front();
  return {{YamlEntry{range.key, range.value["from"], range.path, range.origin}}};
}

SweepBlock read_block(const YamlEntry& entry) {
  const std::vector<std::string> forms = experiment_key_names("sweep");
  require_map(entry, "one or more of: " + joined(forms));
  const auto written = entries(entry.value, entry.origin, "sweep.", entry.value_place());
  if (written.empty()) refuse_value(entry, "is empty; allowed: one or more of: " + joined(forms));
  SweepBlock block;
  block.place = entry.value_place();
  std::vector<Axis> axes;
  std::vector<Axis> doubled;  // none or one
  Axis items;
  std::vector<Combination> included;
  for (const YamlEntry& form : written) {
    const std::string& name = form.key.Scalar();
    const auto add_axis = [&](Axis axis) {
      block.combinations = crossed(std::move(block.combinations), axis, form, block);
      axes.push_back(std::move(axis));
    };
    if (name == "product") {
      for (const YamlEntry& list : read_lists(form)) add_axis(read_product_key(list));
    } else if (name == "zip") {
      add_axis(read_zip(form));
    } else if (name == "include") {
      items = read_include(form);
      included = crossed({{}}, items, form, block);
    } else if (name == "exclude") {
      block.exclusions = read_exclude(form);
    } else if (name == "repeats") {
      block.repeats = read_repeats(form);
    } else if (name == "double") {
      block.doubled = read_doubled_key(form);
      doubled.push_back(axis_of_double(form));
    } else {
      refuse_unknown_key(
          form, forms,
          is_key_of_a_run(name) ? "; its values stand below 'product'" : suggestion(name, forms));
    }
  }
  if (axes.empty() && !included.empty()) block.combinations.clear();
  std::ranges::copy(doubled, std::back_inserter(axes));
  check_axes_agree(axes);
  if (!items.empty()) doubled.push_back(std::move(items));
  check_axes_agree(doubled);
  std::ranges::move(included, std::back_inserter(block.combinations));
  return block;
}

void lengthen_ambiguous_labels(SweepBlocks& blocks) {
  struct Labelled {
    const std::string& key;
    std::string& label;
  };
  std::vector<Labelled> all;
  for (SweepBlock& block : blocks) {
    for (SweepValue& value : block.values) all.push_back({value.key, value.label});
    if (block.doubled) all.push_back({block.doubled->key, block.doubled->label});
  }
  std::vector<std::pair<std::string, std::string>> keys;  // label, key
  for (const Labelled& each : all) keys.emplace_back(each.label, each.key);
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const Labelled& each : all) {
    const auto is_namesake = [&](const auto& key) { return key.first == each.label; };
    if (std::ranges::count_if(keys, is_namesake) > 1) each.label = each.key;
  }
}

}  // namespace

std::string SweepBlock::suffix(const Combination& combination) const {
  std::string text;
  for (const size_t number : combination) {
    text += ' ' + values[number].label + '=' + values[number].text;
  }
  return text;
}

const std::string& SweepBlock::place_of(const Combination& combination) const {
  return combination.empty() ? place : values[combination.back()].place;
}

SweepBlocks read_sweep(const YamlEntry& entry) {
  SweepBlocks blocks;
  if (!entry.value.IsSequence()) {
    blocks.push_back(read_block(entry));
  } else {
    if (entry.value.size() == 0)
      refuse_value(entry, "is an empty list; allowed: at least one block");
    for (const YAML::Node& node : entry.value) blocks.push_back(read_block(item_of(entry, node)));
  }
  lengthen_ambiguous_labels(blocks);
  return blocks;
}

}  // namespace fsdp
