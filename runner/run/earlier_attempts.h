#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/run/attempt.h"

// Attempts that other processes began: killed runners, jobs of Slurm, people.
namespace fsdp {

// Makes an NFS client ask its server again which names are in the run's folder, and in the folders
// of attempt `attempt` and later ones. Otherwise a name that the client once did not find stays
// absent for up to a minute: see lookupcache and acdirmax in nfs(5). Stops at the first folder that
// cannot be opened.
void ask_again_for_names(const RunPaths& run, int attempt);

// Judges attempts that have begun and not ended: of runners that were killed, of people (torchrun,
// fsdp-train), and of jobs that are not open. An attempt of the last two kinds must have ended by
// its files. No rank of a runner runs any more: ranks die with their runner, and the caller holds
// the experiment's lock. `say` is told about each attempt. Returns the number of those it judged.
int recover_attempts(Store& store, const std::filesystem::path& results,
                     std::string_view experiment,
                     const std::function<void(const std::string&)>& say);

// The Slurm job that a loop works in.
struct JobOfLoop {
  std::string id;
  std::string node_list;
  std::optional<double> gpus_held{};  // by each run
  std::optional<double> nodes_held{};
  std::map<int64_t, EndedAttempts> ended{};  // by run, in earlier starts of the job
};

// Returns the run that follows an ended run, if any.
using FollowUp = std::function<std::optional<RunRecord>(const RunRecord&, RunStatus)>;

// Returns those of `runs` that the job must still launch. If Slurm has started the job before,
// judges the earlier attempts by their files. A run that ended by itself is replaced by its
// `follow_up`, if any; the same then holds for that run. A run that was cut short is launched
// again, unless slurm.max_restarts is reached.
std::vector<RunRecord> left_to_launch(std::vector<RunRecord> runs,
                                      const std::filesystem::path& results, JobOfLoop& job,
                                      FileDigests& digests, Progress& progress,
                                      const FollowUp& follow_up);

}  // namespace fsdp
