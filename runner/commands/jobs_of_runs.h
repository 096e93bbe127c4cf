#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runner/store/store.h"

// Functions with which commands ask about jobs of Slurm, and describe them to users.
namespace fsdp {

// Brings open jobs up to date before a command reports on runs. If Slurm cannot be asked, a line on
// stderr says so; the report then relies on what the jobs wrote.
void refresh_open_jobs(Store& store, const std::filesystem::path& results);

// Does the same unless Slurm was asked less than 5 s ago. For a command that is repeated every few
// seconds, as by watch.
void refresh_open_jobs_now_and_then(Store& store, const std::filesystem::path& results);

// Returns the newest job submitted for the run, with the run's task only.
std::optional<JobRecord> newest_job(const Store& store, const RunRecord& run);

bool has_open_job(const Store& store, const RunRecord& run);

// "job 12_0, PENDING (Resources)", "job 12_0 on n[1-2]", "job 12_0, which is over"
std::string job_text(const JobRecord& job);

// Returns the job's own output file. It tells why the job could not begin an attempt.
std::filesystem::path job_output(const JobRecord& job, const std::filesystem::path& results);

}  // namespace fsdp
