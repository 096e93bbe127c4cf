#pragma once

#include <filesystem>

#include "runner/store/store.h"

namespace fsdp {

// Before a command tells of runs: open jobs of Slurm are brought up to date. Says in a line on
// stderr when Slurm could not be asked; what is told then is what the jobs wrote.
void refresh_open_jobs(Store& store, const std::filesystem::path& results);

// The same for a command that is repeated every few seconds, as by watch: it leaves Slurm alone
// when it was asked less than 5 s ago.
void refresh_open_jobs_now_and_then(Store& store, const std::filesystem::path& results);

}  // namespace fsdp
