#pragma once

#include <filesystem>
#include <string>
#include <string_view>

// Recognizes what Slurm's programs write to stderr when they fail.
namespace fsdp {

// Joins the lines into one, without the program's name and "error: " before each.
std::string plain_complaint(std::string_view error);

// True if the controller, its database or their authentication does not answer now.
bool says_unavailable(std::string_view complaint);
// True if sbatch reports that it did not submit the job.
bool says_submission_failed(std::string_view error);
// True if a limit on the number of submitted jobs was reached.
bool says_too_many_jobs(std::string_view complaint);
// True if squeue's reason says that somebody, or Slurm itself, holds the job.
bool says_held(std::string_view reason);
// True if a job no longer exists or is over.
bool says_job_is_gone(std::string_view complaint);

// True if a line of srun or slurmstepd reports a task or step killed at its memory limit.
bool says_out_of_memory(std::string_view complaint);
// True if a line of srun or slurmstepd reports a failed node of the job or step.
bool says_node_failed(std::string_view complaint);
// True if a line of srun says that its job is over or was queued again.
bool says_nodes_are_gone(std::string_view complaint);
// Returns the first line of the file that satisfies `says`, from the byte `begin` on. Empty if none
// does.
std::string first_line(const std::filesystem::path& log, bool (*says)(std::string_view),
                       uintmax_t begin = 0);

// Suggest what to change if sbatch refused a job, or if a job waits for this reason. Empty if
// unknown.
std::string remedy_for_refusal(std::string_view complaint);
std::string remedy_for_reason(std::string_view reason);

}  // namespace fsdp
