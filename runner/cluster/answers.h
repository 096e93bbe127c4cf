#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/cluster/slurm.h"

// Parsers for the output of Slurm's programs. A line in another format throws QueueUnavailable,
// because a busy or broken cluster may answer correctly the next time.
namespace fsdp {

// The formats to request. The script comes last because its path may hold any character.
inline constexpr const char* kSqueueFormat = "--format=%i|%T|%L|%N|%r|%o";
inline constexpr const char* kSacctFormat = "--format=JobID,State,NodeList";

// Reads lines of squeue. Tasks in unknown states are kEnding: they still exist.
std::vector<TaskState> read_squeue(std::string_view output);
// Reads lines of sacct --parsable2 --noheader.
std::vector<TaskState> read_sacct(std::string_view output);
// Reads lines of sacct about a task and its steps: the sum of the energy, and the most memory.
inline constexpr const char* kSacctAccounts = "--format=JobID,ConsumedEnergyRaw,MaxRSS";
std::optional<TaskAccounts> read_accounts(std::string_view output);
// Reads lines of scontrol --oneliner show partition.
std::vector<Partition> read_partitions(std::string_view output);
// Reads lines of scontrol --oneliner show job.
std::vector<TaskState> read_scontrol_jobs(std::string_view output);

// Reads the output of scontrol show config.
SlurmConfig read_config(std::string_view output);

// The job id in the output of sbatch --parsable, "12" or "12;cluster".
std::string read_submitted(std::string_view output);

// Finds the job or array with the script in lines "%F|%o" of squeue.
std::optional<std::string> read_submission(std::string_view output,
                                           const std::filesystem::path& script);

// True if `command`, as squeue or scontrol shows it, is this script. Compares only the names of the
// script and of its folder, because Slurm may show another path to the folder. The folder's name is
// unique.
bool is_script(std::string_view command, const std::filesystem::path& script);

// The job of a task: "12" of "12_3".
std::string job_of(std::string_view task);

}  // namespace fsdp
