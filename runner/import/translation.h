#pragma once

#include <string>
#include <vector>

#include "runner/import/words.h"

namespace fsdp {

// One of our keys, with its value and its origin.
struct ImportedKey {
  std::string name;
  std::string value;            // in YAML
  std::string origin;           // for people: "base_model, line 1", "default of axolotl"
  ForeignWord* word = nullptr;  // null: a default or a consequence
};

// Our keys that the words of all files mean together.
class Translation {
 public:
  // Sets what the words mean. `others` is the table of words that the file's trainer does not have.
  // Names of files are left out, because reading them is another's work.
  void translate(ForeignFile& file, const OtherTrainer& others);
  // Sets the trainer's defaults, where neither the key nor an alternative to it is set. A key that
  // a value without counterpart decides gets none.
  void add_defaults(const OtherTrainer& trainer);
  void apply_consequences(const OtherTrainer& trainer);

  // Null if the key is not set.
  const ImportedKey* find(std::string_view name) const;
  // Returns an integer's value; `missing` if the key is not set.
  int64_t integer(std::string_view name, int64_t missing) const;
  void set(ImportedKey key);
  // In the order of the documentation of keys.
  std::vector<ImportedKey> keys() const;

 private:
  bool holds(const Conditions& conditions) const;
  void apply(const ValueMeaning& meaning, const OtherTrainer& trainer, ForeignWord& word);
  void erase(std::string_view name, const ImportedKey& by);

  std::vector<ImportedKey> keys_;
  std::vector<std::string> undecided_;  // keys that a value without counterpart decides
};

}  // namespace fsdp
