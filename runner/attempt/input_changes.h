#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "contract/files/file_state.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "runner/attempt/said_by_ranks.h"
#include "runner/store/store.h"

// Whether a run reads what it was planned with. A file is read for that only when its state is not
// one that the store remembers.
namespace fsdp {

// The file's digest as it is now; the store remembers it. Throws ConfigError.
std::string current_digest(Store& store, const std::filesystem::path& file);

// The states of the run's input files, in order; shorter when one cannot be read.
std::vector<FileState> input_states(const RunSpec& spec);

// What is known of an attempt whose inputs are looked at.
struct AttemptSeen {
  // Its inputs before its ranks were started. Absent: a file that was changed and put back is not
  // noticed.
  std::optional<std::vector<FileState>> states_before{};
  // Its end: changes that are known to be later are none of its own.
  std::optional<int64_t> ended_unix_ms{};
};

// Which of the run's input files are not, or not known to be, what they were when it was planned,
// or were touched since: "/data/train.npy changed"; absent: none.
std::optional<std::string> changed_input(Store& store, const RunRecord& run, const RunSpec& spec,
                                         const AttemptSeen& seen = {});

// What an attempt that ended so is when its inputs changed, as changed_input() says: failed. Its
// run's checkpoints are set aside. Throws ResultsUnavailable.
Ending ending_with_changed_input(const RunPaths& paths, int attempt, const std::string& changed,
                                 const Ending& ending);

}  // namespace fsdp
