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

// Records attempts that other processes began: killed runners, jobs of Slurm, people.
namespace fsdp {

// Records the starts of attempts that the job's task has begun in the run's folder. Looks only for
// attempts that are newer than the newest one in the store; `run.attempt` may be out of date.
// Returns their numbers, in order. If a launch.json is missing or unreadable, the next call reads
// it again, unless a later attempt has been recorded. `warn` is told of an unreadable file.
std::vector<int> import_attempts(Store& store, const std::filesystem::path& results,
                                 const RunRecord& run, const JobRecord& job, const JobTask& task,
                                 const WarnOfFile& warn);

// Returns the numbers of the attempts that have a folder and no record, in order.
std::vector<int> unrecorded_attempts(const Store& store, int64_t run, const RunPaths& paths);

// Records attempts that somebody started by hand (torchrun, fsdp-train), or a job that is not open:
// its database was lost, or Slurm started it again. Their end must be in their files. `say` is told
// of each, and of attempts that may still be running. Returns the number of those that it recorded.
int import_attempts_of_others(Store& store, const std::filesystem::path& results,
                              std::string_view experiment, const WarnOfFile& say);

// Makes an NFS client ask its server again which names are in the run's folder, and in the folders
// of attempt `attempt` and later ones. Otherwise a name that the client once did not find stays
// absent for up to a minute: see lookupcache and acdirmax in nfs(5). Stops at the first folder that
// cannot be opened.
void ask_again_for_names(const RunPaths& run, int attempt);

// Closes the attempts of runners that were killed or could not record the end. Some attempts are
// only in files, because the database could not be written. Ingests the ranks' events, which decide
// the status together with end.json. No rank runs any more: ranks die with their runner, and the
// caller holds the experiment's lock. `say` is told about each attempt. Returns their number.
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
