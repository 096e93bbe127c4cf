#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runner/store/store.h"

// What commands ask, and tell people, of jobs of Slurm.
namespace fsdp {

// Before a command tells of runs: open jobs of Slurm are brought up to date. Says in a line on
// stderr when Slurm could not be asked; what is told then is what the jobs wrote.
void refresh_open_jobs(Store& store, const std::filesystem::path& results);

// Brings open jobs up to date unless Slurm was asked less than 5 s ago: for a command that is
// repeated every few seconds, as by watch.
void refresh_open_jobs_now_and_then(Store& store, const std::filesystem::path& results);

// The newest job that was submitted for the run, with the run's task only.
std::optional<JobRecord> newest_job(const Store& store, const RunRecord& run);

bool has_open_job(const Store& store, const RunRecord& run);

// "job 12_0, PENDING (Resources)", "job 12_0 on n[1-2]", "job 12_0, which is over"
std::string job_text(const JobRecord& job);

// The file into which the job itself writes: why it could not begin an attempt is in it.
std::filesystem::path job_output(const JobRecord& job, const std::filesystem::path& results);

}  // namespace fsdp
