// Applies the tables' lines in their order. A value that our key may not hold is not translated.
#include "runner/import/translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

#include "base/text/config_error.h"
#include "contract/spec/overrides.h"

namespace fsdp {
namespace {

constexpr std::string_view kValue = "VALUE";

// Returns the value as YAML reads it again: a list on one line, or plain text.
std::string value_text(const std::string& text) {
  if (!text.starts_with('[')) return flow_text(YAML::Node(text));
  try {
    return flow_text(YAML::Load(text));
  } catch (const YAML::Exception&) {  // no list
    return flow_text(YAML::Node(text));
  }
}

// Returns why our key may not hold this value; empty: it may.
std::string problem_of(const std::string& key, const std::string& value) {
  try {
    const YamlOrigin origin{.name = "", .folder = ""};
    const YAML::Node map = parse_yaml(fmt::format("{}: {}", key, value), origin);
    if (map.size() != 1) return "is no single value";
    Overrides().add(map, origin);
    return "";
  } catch (const ConfigError& error) {
    return error.problem();
  }
}

// "3" for "3.0"
std::string as_integer(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_integer = error == std::errc() && end == text.data() + text.size() &&
                          std::trunc(number) == number && std::abs(number) < 1e15;
  return is_integer ? fmt::format("{:.0f}", number) : text;
}

std::string in_our_words(std::string value, const OtherTrainer& trainer) {
  for (const auto& [theirs, ours] : trainer.values) {
    value = std::regex_replace(value, std::regex("\\b" + theirs + "\\b"), ours);
  }
  return value;
}

std::string setting_text(const std::string& setting, const std::string& value) {
  const size_t at = setting.find(kValue);
  if (at == std::string::npos) return setting;
  std::string text = setting;
  return value_text(text.replace(at, kValue.size(), value));
}

}  // namespace

const ImportedKey* Translation::find(std::string_view name) const {
  const auto found = std::ranges::find(keys_, name, &ImportedKey::name);
  return found == keys_.end() ? nullptr : &*found;
}

int64_t Translation::integer(std::string_view name, int64_t missing) const {
  const ImportedKey* key = find(name);
  if (key != nullptr) {
    std::from_chars(key->value.data(), key->value.data() + key->value.size(), missing);
  }
  return missing;
}

// A word whose first key is replaced gets a note. Its other keys are details of the first.
void Translation::erase(std::string_view name, const ImportedKey& by) {
  std::vector<ForeignWord*> words;
  for (const ImportedKey& key : keys_) {
    const bool is_lost = key.word && key.word != by.word && key.value != by.value &&
                         &key == &*std::ranges::find(keys_, key.word, &ImportedKey::word);
    if (is_lost && is_at_or_below(key.name, name)) words.push_back(key.word);
  }
  std::erase_if(keys_, [&](const ImportedKey& key) { return is_at_or_below(key.name, name); });
  for (ForeignWord* word : words) {
    word->note = "replaced by " + (by.word ? by.word->name : by.origin);
  }
}

void Translation::set(ImportedKey key) {
  erase(key.name, key);
  for (const std::string_view excluded : alternatives_to(key.name)) erase(excluded, key);
  keys_.push_back(std::move(key));
}

bool Translation::holds(const Conditions& conditions) const {
  return std::ranges::all_of(conditions, [&](const auto& condition) {
    const ImportedKey* key = find(condition.first);
    return matches_any(condition.second, key == nullptr ? "~" : key->value);
  });
}

void Translation::apply(const ValueMeaning& meaning, const OtherTrainer& trainer,
                        ForeignWord& word) {
  word.note = meaning.note;
  if (!meaning.is_translated) return;
  std::vector<ImportedKey> keys;
  for (const auto& [name, setting] : meaning.settings) {
    std::string text = setting_text(setting, in_our_words(word.value, trainer));
    if (!problem_of(name, text).empty()) text = as_integer(text);
    std::string problem = problem_of(name, text);
    // An expression of ours refers to our keys.
    if (word.value.find("${") != std::string::npos) problem = "refers to another key";
    if (!problem.empty()) {
      word.note = fmt::format("'{}' cannot be {}: {}", name, word.value, problem);
      return;
    }
    keys.push_back({name, text, fmt::format("{}, {}", word.name, word.place), &word});
  }
  word.fate = keys.empty() ? Fate::kSoAlready : Fate::kTranslated;
  for (ImportedKey& key : keys) set(std::move(key));
}

void Translation::translate(ForeignFile& file, const OtherTrainer& others) {
  struct Found {
    const OtherKey* key;
    const OtherTrainer* table;
    ForeignWord* word;
  };
  std::vector<Found> found;
  for (ForeignWord& word : file.words) {
    if (word.fate != Fate::kUntranslated && word.fate != Fate::kEmpty) continue;
    const bool is_own = file.trainer->find(word.name) || file.trainer->is_irrelevant(word.name);
    const OtherTrainer& table = is_own ? *file.trainer : others;
    if (const OtherKey* key = table.find(word.name)) {
      found.push_back({key, &table, &word});
    } else if (word.fate != Fate::kEmpty && table.is_irrelevant(word.name)) {
      word.fate = Fate::kIrrelevant;
    }
  }
  std::ranges::stable_sort(found, {}, [](const Found& each) { return each.key->order; });
  for (const auto& [key, table, word] : found) {
    const auto meaning = std::ranges::find_if(key->meanings, [&](const ValueMeaning& each) {
      const bool is_meant = word->fate == Fate::kEmpty ? std::ranges::count(each.values, "~") > 0
                                                       : matches_any(each.values, word->value);
      return is_meant && holds(each.conditions);
    });
    if (meaning != key->meanings.end()) {
      apply(*meaning, *table, *word);
    } else if (word->fate != Fate::kEmpty) {
      if (word->note.empty()) word->note = "this value has no counterpart here";
      for (const ValueMeaning& other : key->meanings) {
        if (!other.settings.empty()) undecided_.push_back(other.settings.front().first);
      }
    }
  }
}

void Translation::add_defaults(const OtherTrainer& trainer) {
  const auto is_given = [&](std::string_view section) {
    return std::ranges::any_of(
        keys_, [&](const ImportedKey& key) { return is_at_or_below(key.name, section); });
  };
  for (const auto& [name, value] : trainer.defaults) {
    if (is_given(name) || std::ranges::any_of(alternatives_to(name), is_given)) continue;
    if (std::ranges::count(undecided_, name) > 0) continue;
    set({name, value, "default of " + trainer.name});
  }
}

void Translation::apply_consequences(const OtherTrainer& trainer) {
  for (const Consequence& consequence : trainer.consequences) {
    if (!holds(consequence.conditions)) continue;
    for (const auto& [name, value] : consequence.settings) {
      const ImportedKey* before = find(name);
      if (before && before->word && !consequence.because.empty()) {
        before->word->note = consequence.because;
      }
      set({name, value, before ? before->origin : "", before ? before->word : nullptr});
    }
    for (const ImportedKey& key : keys_) {
      if (key.word == nullptr || !matches_any(consequence.unset, key.name)) continue;
      key.word->fate = consequence.because.empty() ? Fate::kSoAlready : Fate::kUntranslated;
      key.word->note = consequence.because;
    }
    std::erase_if(keys_,
                  [&](const ImportedKey& key) { return matches_any(consequence.unset, key.name); });
  }
}

std::vector<ImportedKey> Translation::keys() const {
  const auto place = [](const ImportedKey& key) {
    return std::ranges::find_if(run_spec_keys(), [&](const RunSpecKey& each) {
      return is_at_or_below(each.name, key.name);
    });
  };
  std::vector<ImportedKey> sorted = keys_;
  std::ranges::stable_sort(sorted, {}, place);
  return sorted;
}

}  // namespace fsdp
