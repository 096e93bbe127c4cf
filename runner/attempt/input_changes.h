#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "runner/attempt/said_by_ranks.h"
#include "runner/store/store.h"

// Whether a run reads what it was planned with. A file is read for that only when its state is not
// one that the store remembers.
namespace fsdp {

// The file's digest as it is now; the store remembers it. Throws ConfigError.
std::string current_digest(Store& store, const std::filesystem::path& file);

// Names the run's input files that are not, or not known to be, what they were when it was planned:
// "/data/train.npy changed"; absent: none. Changes that are known to be later than `ended_unix_ms`,
// the end of an attempt, do not count.
std::optional<std::string> changed_input(Store& store, const RunRecord& run, const RunSpec& spec,
                                         std::optional<int64_t> ended_unix_ms = std::nullopt);

// What an attempt that ended so is when its inputs changed, as changed_input() says: failed. Its
// run's checkpoints are set aside. Throws ResultsUnavailable.
Ending ending_with_changed_input(const RunPaths& paths, int attempt, const std::string& changed,
                                 const Ending& ending);

}  // namespace fsdp
