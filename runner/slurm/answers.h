#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/slurm/slurm.h"

// What Slurm's programs answer, read strictly: a line that is not as asked for throws
// QueueUnavailable, since a busy or broken cluster may say something else the next time.
namespace fsdp {

// The formats to ask for. A reason may have spaces and commas, so it comes last.
inline constexpr const char* kSqueueFormat = "--format=%i|%T|%L|%N|%r";
inline constexpr const char* kSacctFormat = "--format=JobID,State,NodeList";

// Lines of squeue. Tasks in a state that we do not know are kEnding: they live.
std::vector<TaskState> read_squeue(std::string_view output);
// Lines of sacct --parsable2 --noheader.
std::vector<TaskState> read_sacct(std::string_view output);
// Lines of scontrol --oneliner show partition.
std::vector<Partition> read_partitions(std::string_view output);
// Lines of scontrol --oneliner show job.
std::vector<TaskState> read_scontrol_jobs(std::string_view output);

// Of scontrol show config.
SlurmConfig read_config(std::string_view output);

// The job's id in the answer of sbatch --parsable: "12" or "12;cluster".
std::string read_submitted(std::string_view output);

// The array's or job's id for `token` in lines "%F|%k" of squeue.
std::optional<std::string> read_submission(std::string_view output, std::string_view token);

// The job that a task is of: "12" of "12_3".
std::string job_of(std::string_view task);

}  // namespace fsdp
