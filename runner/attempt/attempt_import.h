#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/attempt/records.h"
#include "runner/store/store.h"

namespace fsdp {

// Begins in the store the attempts that jobs have begun in the run's folder and that are newer than
// the store's. Their launch.json names one of the run's jobs. It may name any job while sbatch has
// not answered about one. With `slurm_job`, only attempts that name this job are begun, as
// slurm_name() writes it. Returns their numbers, in order. A launch.json that is missing or
// unreadable is read again the next time, unless a later attempt has begun. `warn` is told of an
// unreadable one. `run.attempt` may be out of date.
std::vector<int> import_attempts(
    Store& store, const std::filesystem::path& results, const RunRecord& run,
    const WarnOfFile& warn = [](const std::string&) {},
    const std::optional<std::string>& slurm_job = std::nullopt);

// Records attempts that somebody started by hand (torchrun, fsdp-train), if all their ranks have
// reported their end. `say` is told of each, and of attempts that may still be running.
void import_attempts_by_hand(Store& store, const std::filesystem::path& results,
                             std::string_view experiment, const WarnOfFile& say);

// Refreshes the names in the run's folder, and in its attempts' folders from `attempt` on, from the
// file server. If an NFS client did not find a name, it takes the name as absent for up to a
// minute, unless the folder itself is asked about: see lookupcache and acdirmax in nfs(5). Folders
// that cannot be opened are left as they are.
void ask_again_for_names(const RunPaths& run, int attempt);

}  // namespace fsdp
