#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runner/store/store.h"

// What people are told of a run's job of Slurm.
namespace fsdp {

// The newest job that was submitted for the run, with the run's task only.
std::optional<JobRecord> newest_job(const Store& store, const RunRecord& run);

bool has_open_job(const Store& store, const RunRecord& run);

// "job 12_0, PENDING (Resources)", "job 12_0 on n[1-2]", "job 12_0, which is over"
std::string job_text(const JobRecord& job);

// The file into which the job itself writes: why it could not begin an attempt is in it.
std::filesystem::path job_output(const JobRecord& job, const std::filesystem::path& results);

}  // namespace fsdp
