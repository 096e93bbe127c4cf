#include "runner/slurm/slurm.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <system_error>

#include "runner/slurm/answers.h"
#include "runner/slurm/complaints.h"
#include "runner/slurm/program_environment.h"
#include "trainer/contract/config_error.h"

namespace fsdp {
namespace {

// Longer than an argument of a program may be (128 KiB) is no list of ids on Linux.
constexpr size_t kLongestList = 100'000;

std::string joined(std::span<const std::string> words) {
  std::string list;
  for (const std::string& word : words) {
    if (!list.empty()) list += ',';
    list += word;
  }
  return list;
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The jobs that no task is of.
std::vector<std::string> unknown_jobs(std::span<const std::string> jobs,
                                      const std::vector<TaskState>& tasks) {
  std::set<std::string> known;
  for (const TaskState& task : tasks) known.insert(job_of(task.job));
  std::vector<std::string> unknown;
  for (const std::string& job : jobs) {
    if (!known.contains(job)) unknown.push_back(job);
  }
  return unknown;
}

void keep_only(std::span<const std::string> jobs, std::vector<TaskState>& tasks) {
  const std::set<std::string> wanted(jobs.begin(), jobs.end());
  std::erase_if(tasks, [&](const TaskState& task) { return !wanted.contains(job_of(task.job)); });
}

}  // namespace

ProgramResult SlurmPrograms::call(const std::vector<std::string>& words,
                                  const std::vector<std::string>& environment) {
  ++calls_[words[0]];
  try {
    ProgramResult result = run_program(words, environment, time_limit_);
    if (result.timed_out) {
      throw SlurmUnavailable(words[0] + " had no answer within " +
                             std::to_string(time_limit_.count() / 1000) + " s" +
                             (result.error.empty() ? "" : ": " + plain_complaint(result.error)));
    }
    return result;
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) throw;
    throw ConfigError("", "", words[0] + " is not here: is this a login node of a Slurm cluster?");
  }
}

void SlurmPrograms::refuse(const std::string& program, const ProgramResult& result) const {
  const std::string complaint = plain_complaint(result.error);
  const std::string problem =
      program + ": " +
      (complaint.empty() ? "exited with status " + std::to_string(result.exit_status) : complaint);
  if (says_unavailable(complaint)) throw SlurmUnavailable(problem);
  throw std::runtime_error(problem);
}

std::string SlurmPrograms::answer(const std::vector<std::string>& words) {
  const ProgramResult result = call(words, program_environment());
  if (result.exit_status != 0) refuse(words[0], result);
  return result.output;
}

SlurmLimits SlurmPrograms::limits() {
  if (!limits_) limits_ = read_limits(answer({"scontrol", "show", "config"}));
  return *limits_;
}

std::string SlurmPrograms::submit(const std::filesystem::path& script) {
  const ProgramResult result =
      call({"sbatch", "--parsable", script.string()}, submission_environment(text_of(script)));
  if (result.exit_status == 0) return read_submitted(result.output);
  const std::string complaint = plain_complaint(result.error);
  if (says_too_many_jobs(complaint)) throw SlurmRefused("sbatch: " + complaint, true);
  if (says_unavailable(complaint)) throw SlurmUnavailable("sbatch: " + complaint);
  const std::string remedy = remedy_for(complaint);
  throw SlurmRefused("sbatch refuses the job: " + complaint + (remedy.empty() ? "" : "; " + remedy),
                     false);
}

std::optional<std::string> SlurmPrograms::find_submission(const std::string& token) {
  return read_submission(
      answer({"squeue", "--noheader", "--all", "--me", "--states=all", "--format=%F|%k"}), token);
}

std::vector<TaskState> SlurmPrograms::query_squeue(std::span<const std::string> jobs) {
  const std::string list = joined(jobs);
  const bool is_long = list.size() > kLongestList;
  const ProgramResult result = call({"squeue", "--noheader", "--all", "--array", "--states=all",
                                     is_long ? "--me" : "--jobs=" + list, kSqueueFormat},
                                    program_environment());
  if (result.exit_status != 0) {
    // Of several ids, squeue is silent about those that it does not know.
    if (says_job_is_gone(plain_complaint(result.error))) return {};
    refuse("squeue", result);
  }
  std::vector<TaskState> tasks = read_squeue(result.output);
  if (is_long) keep_only(jobs, tasks);
  return tasks;
}

std::vector<TaskState> SlurmPrograms::query_sacct(std::span<const std::string> jobs) {
  std::vector<TaskState> tasks;
  while (!jobs.empty()) {
    const auto some = jobs.first(std::min<size_t>(jobs.size(), 1000));
    jobs = jobs.subspan(some.size());
    const ProgramResult result = call({"sacct", "--allocations", "--noheader", "--parsable2",
                                       "--jobs=" + joined(some), kSacctFormat},
                                      program_environment());
    // Its database may be down while the controller is not: these jobs are unknown for now.
    if (result.exit_status != 0) return tasks;
    const std::vector<TaskState> found = read_sacct(result.output);
    tasks.insert(tasks.end(), found.begin(), found.end());
  }
  return tasks;
}

std::vector<TaskState> SlurmPrograms::query_scontrol(std::span<const std::string> jobs) {
  std::vector<TaskState> tasks;
  for (const std::string& job : jobs) {
    if (gone_.contains(job)) continue;
    const ProgramResult result =
        call({"scontrol", "--all", "--oneliner", "show", "job", job}, program_environment());
    if (result.exit_status == 0) {
      const std::vector<TaskState> found = read_scontrol_jobs(result.output);
      tasks.insert(tasks.end(), found.begin(), found.end());
    } else if (says_job_is_gone(plain_complaint(result.error))) {
      gone_.insert(job);
    } else {
      refuse("scontrol", result);
    }
  }
  return tasks;
}

std::vector<TaskState> SlurmPrograms::query(std::span<const std::string> jobs) {
  if (jobs.empty()) return {};
  std::vector<TaskState> tasks = query_squeue(jobs);
  const auto ask =
      [&](std::vector<TaskState> (SlurmPrograms::*others)(std::span<const std::string>)) {
        const std::vector<std::string> unknown = unknown_jobs(jobs, tasks);
        if (unknown.empty()) return;
        const std::vector<TaskState> found = (this->*others)(unknown);
        tasks.insert(tasks.end(), found.begin(), found.end());
      };
  if (!unknown_jobs(jobs, tasks).empty() && limits().has_accounting) {
    ask(&SlurmPrograms::query_sacct);
  }
  ask(&SlurmPrograms::query_scontrol);
  return tasks;
}

void SlurmPrograms::cancel(std::span<const std::string> jobs_or_tasks) {
  while (!jobs_or_tasks.empty()) {
    const auto some = jobs_or_tasks.first(std::min<size_t>(jobs_or_tasks.size(), 1000));
    jobs_or_tasks = jobs_or_tasks.subspan(some.size());
    std::vector<std::string> words = {"scancel"};
    words.insert(words.end(), some.begin(), some.end());
    const ProgramResult result = call(words, program_environment());
    if (result.exit_status != 0 && !says_job_is_gone(result.error)) refuse("scancel", result);
  }
}

}  // namespace fsdp
