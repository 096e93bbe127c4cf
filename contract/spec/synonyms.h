#pragma once

#include <string_view>
#include <vector>

namespace fsdp {

// A word from other trainers, and the name that a run has for it: a dotted key, or a value.
struct Synonym {
  std::string_view said;
  std::string_view meant;
};

// All synonyms, for hints in error messages. No input is read by a synonym.
const std::vector<Synonym>& synonyms();

// Returns the meanings of `said`, or none. Ignores capitals, and takes dashes for underscores.
std::vector<std::string_view> meanings(std::string_view said);

}  // namespace fsdp
