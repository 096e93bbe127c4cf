// Reads the tables of other trainers' keys, which are in the program. A trainer's own lines count
// before those that it includes.
#include "contract/spec/other_trainers.h"

#include <fnmatch.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace fsdp {
namespace {

constexpr int64_t kMostKeys = 1000;  // of a table

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.empty()) words.emplace_back();  // the empty text
  return words;
}

std::string text_of(const YAML::Node& value) {
  const bool has_theirs = value.IsScalar() && value.Scalar().find("VALUE") != std::string::npos;
  return has_theirs ? value.Scalar() : flow_text(value);
}

Settings read_settings(const YAML::Node& map) {
  Settings settings;
  for (const auto& entry : map) {
    settings.emplace_back(entry.first.Scalar(), text_of(entry.second));
  }
  return settings;
}

Conditions read_conditions(const YAML::Node& map) {
  Conditions conditions;
  for (const auto& entry : map) {
    conditions.emplace_back(entry.first.Scalar(),
                            words_of(entry.second.IsNull() ? "~" : entry.second.Scalar()));
  }
  return conditions;
}

ValueMeaning read_meaning(const std::string& values, const YAML::Node& node) {
  ValueMeaning meaning{.values = words_of(values)};
  if (node.IsScalar()) {
    meaning.is_translated = false;
    meaning.note = node.Scalar();
  }
  if (!node.IsMap()) return meaning;
  for (const auto& entry : node) {
    const std::string& key = entry.first.Scalar();
    if (key == "if") {
      meaning.conditions = read_conditions(entry.second);
    } else if (key == "note") {
      meaning.note = entry.second.Scalar();
    } else {
      meaning.settings.emplace_back(key, text_of(entry.second));
    }
  }
  return meaning;
}

OtherKey read_key(const std::string& names, const YAML::Node& node) {
  OtherKey key{.names = words_of(names)};
  if (node.IsMap()) {
    for (const auto& entry : node) {
      key.meanings.push_back(read_meaning(entry.first.Scalar(), entry.second));
    }
  } else if (node.Scalar() == "FILE") {
    key.names_file = true;
  } else if (node.IsSequence()) {
    key.list = node.as<std::vector<std::string>>();
  } else {
    key.same = node.Scalar();
    key.meanings.push_back({.values = {"*"}, .settings = {{key.same, "VALUE"}}});
  }
  return key;
}

Consequence read_consequence(const YAML::Node& node) {
  return {.conditions = read_conditions(node["if"]),
          .settings = read_settings(node["set"]),
          .unset = node["unset"] ? words_of(node["unset"].Scalar()) : std::vector<std::string>(),
          .because = node["because"] ? node["because"].Scalar() : ""};
}

// Appends what `other` has after the trainer's own.
void include(OtherTrainer& trainer, const OtherTrainer& other) {
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const auto& [key, value] : other.defaults) {
    if (std::ranges::count(trainer.defaults, key, &Settings::value_type::first) == 0) {
      trainer.defaults.emplace_back(key, value);
    }
  }
  for (const OtherKey& key : other.keys) {
    trainer.keys.push_back(key);
    trainer.keys.back().order -= kMostKeys;
  }
  append(trainer.values, other.values);
  append(trainer.irrelevant, other.irrelevant);
  append(trainer.consequences, other.consequences);
}

OtherTrainer read_trainer(const YAML::Node& table, const std::vector<OtherTrainer>& earlier) {
  OtherTrainer trainer{.name = table["name"].Scalar(),
                       .marks = table["marks"].as<std::vector<std::string>>(),
                       .defaults = read_settings(table["defaults"]),
                       .values = read_settings(table["values"]),
                       .irrelevant = table["irrelevant"].as<std::vector<std::string>>()};
  for (const auto& entry : table["keys"]) {
    trainer.keys.push_back(read_key(entry.first.Scalar(), entry.second));
    trainer.keys.back().order = std::ssize(trainer.keys);
  }
  if (table["flags"]) trainer.flags = table["flags"].as<std::vector<std::string>>();
  for (const YAML::Node& node : table["consequences"]) {
    trainer.consequences.push_back(read_consequence(node));
  }
  for (const YAML::Node& name : table["includes"]) {
    const auto other = std::ranges::find(earlier, name.Scalar(), &OtherTrainer::name);
    if (other == earlier.end()) throw std::logic_error("no table " + name.Scalar());
    include(trainer, *other);
  }
  return trainer;
}

std::vector<OtherTrainer> read_tables() {
  std::vector<OtherTrainer> trainers;
  for (const YAML::Node& table : YAML::LoadAll(kOtherTrainers)) {
    trainers.push_back(read_trainer(table, trainers));
  }
  std::ranges::reverse(trainers);  // a special table includes those before it
  return trainers;
}

}  // namespace

std::string flow_text(const YAML::Node& value) {
  YAML::Emitter emitter;
  emitter.SetSeqFormat(YAML::Flow);
  emitter.SetMapFormat(YAML::Flow);
  emitter << value;
  return emitter.c_str();
}

bool matches_any(const std::vector<std::string>& patterns, const std::string& text) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), text.c_str(), FNM_CASEFOLD) == 0;
  });
}

const OtherKey* OtherTrainer::find(const std::string& name) const {
  const auto found =
      std::ranges::find_if(keys, [&](const OtherKey& key) { return matches_any(key.names, name); });
  return found == keys.end() ? nullptr : &*found;
}

bool OtherTrainer::is_irrelevant(const std::string& name) const {
  return matches_any(irrelevant, name);
}

const std::vector<OtherTrainer>& other_trainers() {
  static const std::vector<OtherTrainer> kTrainers = read_tables();
  return kTrainers;
}

}  // namespace fsdp
