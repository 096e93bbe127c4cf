#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/attempt/records.h"
#include "runner/store/store.h"

namespace fsdp {

// Begins in the store the attempts that jobs have begun in the run's folder since: those newer than
// what the store knows, whose launch.json names one of the run's jobs (or any job, while sbatch has
// not answered about one). With `slurm_job`, only those that name it, as slurm_name() does.
// Returns their numbers, in order. A launch.json that is not there yet, or that `warn` is told of,
// is looked at again the next time, unless a later attempt has begun. `run.attempt` need not be up
// to date.
std::vector<int> import_attempts(
    Store& store, const std::filesystem::path& results, const RunRecord& run,
    const WarnOfFile& warn = [](const std::string&) {},
    const std::optional<std::string>& slurm_job = std::nullopt);

// Records attempts at the experiment's runs that somebody started by hand (torchrun, fsdp-train)
// and whose ranks have all said how they ended. `say` is told of each, and of those that may go on.
void import_attempts_by_hand(Store& store, const std::filesystem::path& results,
                             std::string_view experiment, const WarnOfFile& say);

// Makes names in the run's folder, and in those of its attempts from `attempt` on, known as the
// file server has them now: where a name was looked for in vain, a client of NFS takes it as absent
// for up to a minute (nfs(5), lookupcache and acdirmax), unless the folder itself is asked about.
// Folders that cannot be opened are left as they are.
void ask_again_for_names(const RunPaths& run, int attempt);

}  // namespace fsdp
