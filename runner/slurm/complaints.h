#pragma once

#include <string>
#include <string_view>

// What Slurm's programs say on stderr when they fail.
namespace fsdp {

// Without the program's name and "error: " before each line, as one line.
std::string plain_complaint(std::string_view error);

// The controller, its database or the authentication between them does not answer now.
bool says_unavailable(std::string_view complaint);
// sbatch's last words about a job that was not submitted.
bool says_submission_failed(std::string_view error);
// A limit on the number of submitted jobs was reached.
bool says_too_many_jobs(std::string_view complaint);
// A job is not there any more, or is over.
bool says_job_is_gone(std::string_view complaint);

// A task or a step was killed at its memory limit: in a line of srun or slurmstepd.
bool says_out_of_memory(std::string_view complaint);
// A node of the job or of the step is gone: in a line of srun or slurmstepd.
bool says_node_failed(std::string_view complaint);
// The reason of a run that ended for its job's memory limit while other runs of the job shared it.
inline constexpr std::string_view kSharedLimitReached =
    "the job's memory limit (slurm.mem) was reached, which runs beside each other share: "
    "slurm.max_parallel 1 runs one at a time";

// What to change after sbatch refused a job so; empty: not known.
std::string remedy_for(std::string_view complaint);

}  // namespace fsdp
