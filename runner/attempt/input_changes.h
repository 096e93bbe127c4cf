#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runner/store/store.h"

// Checks that a run still reads the inputs that it was planned with. A file is read for this only
// if the store does not remember its state.
namespace fsdp {

// Returns the file's present digest; the store remembers it. Throws ConfigError.
std::string current_digest(Store& store, const std::filesystem::path& file);

// Names the run's input files that have changed since the plan, or may have: "/data/train.npy
// changed"; nullopt: none. Changes certainly later than `ended_unix_ms`, the end of an attempt, do
// not count.
std::optional<std::string> changed_input(Store& store, const RunRecord& run,
                                         std::optional<int64_t> ended_unix_ms = std::nullopt);

}  // namespace fsdp
