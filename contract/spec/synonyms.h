#pragma once

#include <string_view>
#include <vector>

namespace fsdp {

// A word that people know from other trainers, and what a run calls the same: a key, dotted, or a
// value.
struct Synonym {
  std::string_view said;
  std::string_view meant;
};

// All synonyms, for hints of error messages. Nothing is read by a synonym.
const std::vector<Synonym>& synonyms();

// Returns what `said` means. Capitals and dashes do not count. Empty if it is no synonym.
std::vector<std::string_view> meanings(std::string_view said);

}  // namespace fsdp
