// Applies layers of values to a specification. Values that follow from others are computed last.
#include "contract/spec/overrides.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text/config_error.h"
#include "contract/families/family.h"

namespace fsdp {
namespace {

constexpr std::string_view kModelConfig = "model.config";
constexpr std::string_view kPreset = "model.config.preset";

}  // namespace

// --- expressions ---

namespace {

constexpr const char* kGrammar =
    "; allowed: references and numbers joined by * and /, such as ${batch.size_per_rank} * 1e-4";

void skip_spaces(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
}

// Takes the text up to the first of `ends` from `rest`. Returns it without spaces around it.
std::string_view take_until(std::string_view ends, std::string_view& rest) {
  const size_t end = std::min(rest.find_first_of(ends), rest.size());
  std::string_view token = rest.substr(0, end);
  rest.remove_prefix(end);
  skip_spaces(token);
  while (token.ends_with(' ')) token.remove_suffix(1);
  return token;
}

// Reads a number, perhaps infinite, that is all of the text. nullopt if the text is anything else.
std::optional<long double> whole_number(std::string_view text) {
  long double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

// Writes whole numbers without an exponent, so that an integer key may have this value.
std::string text_of_number(double value) {
  constexpr double kLargestExactInteger = 9007199254740992;  // 2^53
  if (value == std::floor(value) && std::fabs(value) <= kLargestExactInteger) {
    return std::to_string(static_cast<int64_t>(value));
  }
  return shortest(value);
}

}  // namespace

bool Expression::is_meant(const YAML::Node& value) {
  return value.IsScalar() && value.Scalar().find("${") != std::string::npos;
}

Expression::Expression(const YamlEntry& entry)
    : key_(entry.path), text_(entry.value.Scalar()), place_(entry.value_place()) {
  std::string_view rest = text_;
  bool is_divisor = false;
  while (true) {
    skip_spaces(rest);
    factors_.push_back(read_factor(rest));
    factors_.back().is_divisor = is_divisor;
    skip_spaces(rest);
    if (rest.empty()) return;
    if (rest.front() != '*' && rest.front() != '/') {
      refuse("is followed by '" + std::string(rest) + "'" + kGrammar);
    }
    is_divisor = rest.front() == '/';
    rest.remove_prefix(1);
  }
}

void Expression::refuse(const std::string& problem) const {
  throw ConfigError(place_, key_, "'" + text_ + "': " + problem);
}

Expression::Factor Expression::read_factor(std::string_view& rest) const {
  if (!rest.starts_with("${")) {
    const std::string_view token = take_until("*/ ", rest);
    const auto number = whole_number(token);
    if (!number || !std::isfinite(*number)) {
      refuse("'" + std::string(token) + "' is neither a reference nor a number" + kGrammar);
    }
    return {.number = *number};
  }
  rest.remove_prefix(2);
  const std::string name(take_until("}", rest));
  if (rest.empty()) refuse("'${" + name + "' is not closed; allowed: ${KEY}");
  rest.remove_prefix(1);
  if (const std::vector<std::string>* keys = find_run_spec_section(name)) {
    refuse("'" + name + "' is no value" + (name.empty() ? "" : " but a section") +
           "; allowed: one of its keys, dotted: " + joined(*keys));
  }
  const RunSpecKey* key = find_run_spec_key(name);
  if (!key) refuse("'" + name + "': unknown key" + allowed_instead_of(name));
  return {.key = key};
}

bool Expression::refers_to(const RunSpecKey& key) const {
  return std::ranges::find(factors_, &key, &Factor::key) != factors_.end();
}

std::string Expression::text_of(const RunSpecKey& key, const RunSpec& spec) const {
  if (const std::string_view taken = taken_instead(spec, key); !taken.empty()) {
    refuse("'" + key.name + "' means nothing here, because '" + std::string(taken) +
           "' is given; refer to another key, or write the value");
  }
  const std::string yaml = key.yaml(spec);
  const YAML::Node value = YAML::Load(yaml);
  const std::string text = value.IsSequence() ? yaml : value.Scalar();
  if (text.empty()) {
    refuse("'" + key.name + "' has no value in this run; give it one, or write this value instead");
  }
  return text;
}

long double Expression::number_of(const Factor& factor, const RunSpec& spec) const {
  if (!factor.key) return factor.number;
  const std::string text = text_of(*factor.key, spec);
  const auto number = whole_number(text);
  if (!number) {
    refuse("'" + factor.key->name + "' is '" + text +
           "', which is not a number; allowed: numbers, or the reference alone");
  }
  return *number;
}

// Computes in long double, so that 3 * 1e-4 is the same number as 3e-4.
std::string Expression::result(const RunSpec& spec) const {
  if (factors_.size() == 1 && factors_[0].key) return text_of(*factors_[0].key, spec);
  long double result = 1;
  for (const Factor& factor : factors_) {
    const long double number = number_of(factor, spec);
    result = factor.is_divisor ? result / number : result * number;
  }
  if (!std::isfinite(static_cast<double>(result))) {
    refuse("is not a finite number; does it divide by 0?");
  }
  return text_of_number(static_cast<double>(result));
}

// --- a layer ---

namespace {

[[noreturn]] void refuse_unknown(const YamlEntry& entry) {
  throw ConfigError(entry.key_place(), entry.path, "unknown key" + allowed_instead_of(entry.path));
}

// Refuses `model: NAME` with the name of a preset, of a folder, or of a model on a hub.
void refuse_model_without_key(const YamlEntry& entry) {
  const std::string& name = entry.value.Scalar();
  refuse_value(entry, find_preset(name)
                          ? "'" + name + "' is a preset; write model.config: " + name
                          : "'" + name + "' is not a map; write model.source: " + name +
                                ", or model.config: PRESET; `fsdp-run schema model.config` lists "
                                "the presets");
}

// Refuses a value of a key of the section: strategy: zero3. Returns if it is none.
void refuse_value_of_key_below(const YamlEntry& entry, const std::vector<std::string>& keys) {
  const std::string& value = entry.value.Scalar();
  std::vector<std::string_view> meant = meanings(value);
  meant.insert(meant.begin(), value);
  for (const std::string_view one : meant) {
    for (const RunSpecKey& key : run_spec_keys()) {
      if (!key.name.starts_with(entry.path + '.')) continue;
      if (std::ranges::find(key.names, one) == key.names.end()) continue;
      const std::string hint = "; did you mean '" + key.name + ": " + std::string(one) + "'?";
      refuse_value(entry, "'" + value + "' is not a map" + hint_and_allowed(hint, keys));
    }
  }
}

}  // namespace

void Overrides::add(const YAML::Node& map, const YamlOrigin& origin) {
  Mistakes mistakes;
  for (const YamlEntry& entry : entries(map, origin, "", place_of(map.Mark(), origin))) {
    mistakes.collect([&] { add(entry); });
  }
  mistakes.throw_if_any();
}

void Overrides::add_complete(const YAML::Node& map, const YamlOrigin& origin) {
  is_complete_ = true;
  add(map, origin);
}

void Overrides::add(const YamlEntry& entry) {
  const bool is_short_preset = entry.path == kModelConfig && entry.value.IsScalar();
  if (is_short_preset || entry.path == kPreset) return read_preset(entry);
  if (const auto* keys = find_run_spec_section(entry.path)) return read_section(entry, *keys);
  const RunSpecKey* found = find_run_spec_key(entry.path);
  if (!found) refuse_unknown(entry);
  const auto key = static_cast<size_t>(found - run_spec_keys().data());
  const auto earlier = std::ranges::find(given_, key, &Given::key);
  if (earlier != given_.end() && !earlier->is_of_preset) {
    throw ConfigError(entry.key_place(), entry.path,
                      "duplicate key; first given at " + earlier->place);
  }
  if (earlier != given_.end()) given_.erase(earlier);
  read_value_of(key, entry);
}

void Overrides::read_section(const YamlEntry& entry, const std::vector<std::string>& keys) {
  if (entry.value.IsScalar()) {
    const auto first =
        std::ranges::find(run_spec_keys(), entry.path,
                          [](const RunSpecKey& key) -> std::string_view { return key.short_name; });
    if (first != run_spec_keys().end()) {
      return add({entry.key, entry.value, first->name, entry.origin});
    }
    if (entry.path == "model") refuse_model_without_key(entry);
    refuse_value_of_key_below(entry, keys);
  }
  require_map(entry, "keys: " + joined(keys));
  Mistakes mistakes;
  for (const YamlEntry& below :
       entries(entry.value, entry.origin, entry.path + ".", entry.value_place())) {
    mistakes.collect([&] { add(below); });
  }
  mistakes.throw_if_any();
}

void Overrides::read_preset(const YamlEntry& entry) {
  const Preset* preset = entry.value.IsScalar() ? find_preset(entry.value.Scalar()) : nullptr;
  if (!preset) refuse_name(entry, preset_names());
  preset_ = preset->name;
  RunSpec whole;
  whole.model.config = preset->config;
  for (size_t key = 0; key < changed_.size(); ++key) {
    const RunSpecKey& of_model = run_spec_keys()[key];
    const bool is_given = std::ranges::find(given_, key, &Given::key) != given_.end();
    if (is_given || !is_at_or_below(of_model.name, kModelConfig)) continue;
    of_model.copy(whole, values_);
    changed_[key] = true;
    given_.push_back({.key = key, .place = entry.value_place(), .is_of_preset = true});
  }
  if (!is_complete_) clear_alternatives(entry);
}

void Overrides::read_value_of(size_t key, const YamlEntry& entry) {
  bool is_cleared = false;
  if (!is_complete_ && Expression::is_meant(entry.value)) {
    derived_.push_back({key, Expression(entry)});
  } else {
    run_spec_keys()[key].read(values_, entry);
    is_cleared = !run_spec_keys()[key].is_given(values_);
  }
  changed_[key] = true;
  given_.push_back({.key = key, .place = entry.value_place(), .is_cleared = is_cleared});
  if (!is_cleared && !is_complete_) clear_alternatives(entry);
}

void Overrides::clear_alternatives(const YamlEntry& entry) {
  for (const std::string_view excluded : alternatives_to(entry.path)) {
    // model.config does not clear an earlier model.source. SpecDraft refuses the two together.
    const bool clears = excluded != "model.source";
    for (const Given& given : given_) {
      const std::string& key = run_spec_keys()[given.key].name;
      if (given.is_cleared || !is_at_or_below(key, excluded)) continue;
      refuse_value(entry, "excludes '" + key + "', which is given at " + given.place +
                              "; allowed: one of the two");
    }
    for (size_t key = 0; clears && key < changed_.size(); ++key) {
      if (is_at_or_below(run_spec_keys()[key].name, excluded)) changed_[key] = true;
    }
  }
}

void Overrides::apply(RunSpec& spec) const {
  for (size_t key = 0; key < changed_.size(); ++key) {
    if (changed_[key]) run_spec_keys()[key].copy(values_, spec);
  }
}

bool Overrides::matches(const RunSpec& spec) const {
  return std::ranges::all_of(given_, [&](const Given& given) {
    const RunSpecKey& key = run_spec_keys()[given.key];
    return key.is_equal(values_, spec) && taken_instead(spec, key).empty();
  });
}

std::vector<size_t> Overrides::given() const {
  std::vector<size_t> keys;
  for (const Given& given : given_) {
    if (!given.is_of_preset) keys.push_back(given.key);
  }
  return keys;
}

std::string Overrides::place(std::string_view key) const {
  const auto found = std::ranges::find_if(given_, [&](const Given& given) {
    return is_at_or_below(run_spec_keys()[given.key].name, key);
  });
  return found == given_.end() ? "" : found->place;
}

// --- all layers ---

namespace {

void set_value(RunSpec& spec, const DerivedValue& derived, const std::string& text) {
  const Expression& expression = derived.expression;
  const RunSpecKey& key = run_spec_keys()[derived.key];
  const YamlOrigin origin{.name = expression.place(), .folder = {}, .has_lines = false};
  try {
    key.read(spec, {YAML::Node(key.name), YAML::Node(text), key.name, origin});
  } catch (const ConfigError& error) {
    throw ConfigError(expression.place(), key.name,
                      "'" + expression.text() + "' gives " + text + ": " + error.problem());
  }
}

}  // namespace

void SpecDraft::apply(const Overrides& layer) {
  layer.apply(spec_);
  if (const std::string place = layer.place(kModelConfig);
      !place.empty() && !spec_.model.source.empty()) {
    throw ConfigError(place, std::string(kModelConfig),
                      "excludes 'model.source', which is " + spec_.model.source.string() +
                          "; allowed: one of the two, and for random weights of this form add "
                          "model.source: null");
  }
  std::erase_if(derived_, [&](const DerivedValue* derived) { return layer.changes(derived->key); });
  for (const DerivedValue& derived : layer.derived()) derived_.push_back(&derived);
}

RunSpec SpecDraft::evaluated() const {
  RunSpec spec = spec_;
  for (const DerivedValue* derived : derived_) {
    const Expression& expression = derived->expression;
    for (const DerivedValue* other : derived_) {
      const RunSpecKey& key = run_spec_keys()[other->key];
      if (!expression.refers_to(key)) continue;
      throw ConfigError(expression.place(), run_spec_keys()[derived->key].name,
                        "'" + expression.text() + "': '" + key.name + "' is itself derived, at " +
                            other->expression.place() + "; refer to the keys that it follows from");
    }
    set_value(spec, *derived, expression.result(spec_));
  }
  return spec;
}

}  // namespace fsdp
