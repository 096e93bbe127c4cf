#include "runner/experiment/sweep.h"

#include <algorithm>

#include "runner/experiment/experiment_keys.h"

namespace fsdp {
namespace {

constexpr size_t kMaximumCombinations = 1'000'000;

SweepAxis read_axis(const YamlEntry& entry) {
  const std::string& key = entry.key.Scalar();
  require_list(entry, "values");
  if (entry.value.size() == 0) refuse_value(entry, "is an empty list; allowed: at least one value");
  SweepAxis axis{.key = key, .label = key.substr(key.rfind('.') + 1), .values = {}};
  for (const YAML::Node& value : entry.value) {
    const YamlEntry item{entry.key, value, entry.path, entry.origin};
    if (value.IsMap()) {
      refuse_value(item, "a map is not one value; allowed: one of the keys below '" + key +
                             "', dotted, with a list of values");
    }
    Overrides overrides;
    overrides.add(entry.key, value, entry.origin);
    const std::string text = value.IsNull() ? "null" : value.Scalar();
    for (const SweepAxis::Value& other : axis.values) {
      if (other.text == text) refuse_value(item, "'" + text + "' comes twice; allowed: once");
    }
    axis.values.push_back({text, std::move(overrides)});
  }
  return axis;
}

// Refuses two axes of one key, and of two keys that are alternatives.
void check_axes_agree(const std::vector<YamlEntry>& axes) {
  Overrides all;
  for (const YamlEntry& axis : axes) {
    const auto given = std::find_if(axis.value.begin(), axis.value.end(),
                                    [](const YAML::Node& value) { return !value.IsNull(); });
    all.add(axis.key, given == axis.value.end() ? *axis.value.begin() : *given, axis.origin);
  }
}

void lengthen_ambiguous_labels(std::vector<SweepAxis>& axes) {
  for (SweepAxis& axis : axes) {
    const std::string name = axis.key.substr(axis.key.rfind('.') + 1);
    const auto is_namesake = [&](const SweepAxis& other) {
      return other.key.substr(other.key.rfind('.') + 1) == name;
    };
    if (std::count_if(axes.begin(), axes.end(), is_namesake) > 1) axis.label = axis.key;
  }
}

std::vector<std::vector<size_t>> product(const std::vector<SweepAxis>& axes,
                                         const YamlEntry& entry) {
  size_t count = 1;
  for (const SweepAxis& axis : axes) {
    if (axis.values.size() > kMaximumCombinations / count) {
      refuse_value(entry, "has more combinations than allowed: at most " +
                              std::to_string(kMaximumCombinations));
    }
    count *= axis.values.size();
  }
  std::vector<std::vector<size_t>> combinations;
  combinations.reserve(count);
  for (size_t number = 0; number < count; ++number) {
    std::vector<size_t> combination(axes.size());
    size_t rest = number;
    for (size_t axis = axes.size(); axis-- > 0;) {
      combination[axis] = rest % axes[axis].values.size();
      rest /= axes[axis].values.size();
    }
    combinations.push_back(std::move(combination));
  }
  return combinations;
}

}  // namespace

std::string Sweep::suffix(const std::vector<size_t>& combination) const {
  std::string text;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    text += ' ' + axes[axis].label + '=' + axes[axis].values[combination[axis]].text;
  }
  return text;
}

Sweep read_sweep(const YamlEntry& entry) {
  const std::vector<std::string> forms = experiment_key_names("sweep");
  require_map(entry, "one of: " + joined(forms));
  const auto written = entries(entry.value, entry.origin, entry.path + '.', entry.value_place());
  if (written.size() != 1) refuse_value(entry, "allowed: one of: " + joined(forms));
  const YamlEntry& form = written.front();
  if (form.key.Scalar() != "product") {
    refuse_unknown_key(form, forms, suggestion(form.key.Scalar(), forms));
  }
  require_map(form, "dotted keys to lists of values");
  const auto axes = entries(form.value, form.origin, form.path + '.', form.value_place());
  if (axes.empty()) refuse_value(form, "is empty; allowed: at least one key with a list of values");
  Sweep sweep;
  for (const YamlEntry& axis : axes) sweep.axes.push_back(read_axis(axis));
  check_axes_agree(axes);
  lengthen_ambiguous_labels(sweep.axes);
  sweep.combinations = product(sweep.axes, form);
  return sweep;
}

}  // namespace fsdp
