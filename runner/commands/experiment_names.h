#pragma once

#include <string>
#include <vector>

#include "runner/store/store.h"

namespace fsdp {

// The experiments that a user's words mean: names of experiments in the store, or files of them.
// Throws ConfigError, with the nearest name, on a word that is neither.
std::vector<std::string> experiment_names(const Store& store,
                                          const std::vector<std::string>& words);

}  // namespace fsdp
