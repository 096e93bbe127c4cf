#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/store/store.h"
#include "runner/sweep/attempt_outcome.h"
#include "trainer/contract/file_state.h"
#include "trainer/contract/run_paths.h"
#include "trainer/contract/run_spec.h"

// Whether a run reads what it was planned with. A file is read for that only when its state is not
// one that the store remembers.
namespace fsdp {

// The file's digest as it is now; the store remembers it. Throws ConfigError.
std::string current_digest(Store& store, const std::filesystem::path& file);

// Which of the run's input files are not, or not known to be, what they were when it was planned:
// "/data/train.npy changed"; absent: none. A change that is known to be later than `ended_unix_ms`,
// the end of an attempt, is none of that attempt's.
std::optional<std::string> changed_input(Store& store, const RunRecord& run, const RunSpec& spec,
                                         std::optional<int64_t> ended_unix_ms = std::nullopt);

// The states of the run's input files, in order; shorter when one is not there.
std::vector<FileState> input_states(const RunSpec& spec);

// Which of the run's input files is no longer in the state that it had `before`. Though its
// contents are those of before again, others may have been read in between.
std::optional<std::string> touched_input(const RunSpec& spec, const std::vector<FileState>& before);

// How an attempt ended whose inputs changed, as changed_input says: failed, whatever its ranks say.
AttemptOutcome outcome_of_change(const std::string& changed, const AttemptOutcome& said);
// The run's checkpoints go into the attempt's folder, so that no other goes on from them.
void set_tainted_checkpoints_aside(const RunPaths& paths, int attempt);

}  // namespace fsdp
