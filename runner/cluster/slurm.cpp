#include "runner/cluster/slurm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <regex>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/system/program.h"
#include "base/text/config_error.h"
#include "contract/spec/yaml_value.h"
#include "runner/cluster/answers.h"
#include "runner/cluster/complaints.h"
#include "runner/cluster/request.h"
#include "runner/run/supervised_launches.h"

namespace fsdp {
namespace {

// A list of ids must stay below Linux's limit for one argument (128 KiB).
constexpr size_t kLongestList = 100'000;

// "--jobs=12,13_4"
std::string jobs_option(std::span<const std::string> ids) {
  return fmt::format("--jobs={}", fmt::join(ids, ","));
}

// The jobs of the given jobs and tasks, each once.
std::vector<std::string> jobs_of(std::span<const std::string> ids) {
  std::set<std::string> jobs;
  for (const std::string& id : ids) jobs.insert(job_of(id));
  return {jobs.begin(), jobs.end()};
}

// Appends to `tasks` the tasks in `found` that `ids` name. If an array is found as one job, the
// job's state counts for each of the array's tasks in `ids`.
void add_wanted(std::span<const std::string> ids, const std::vector<TaskState>& found,
                std::vector<TaskState>& tasks) {
  const std::set<std::string> wanted(ids.begin(), ids.end());
  for (const TaskState& task : found) {
    if (wanted.contains(task.job) || wanted.contains(job_of(task.job))) {
      tasks.push_back(task);
      continue;
    }
    for (const std::string& id : ids) {
      if (job_of(id) == task.job) tasks.emplace_back(task).job = id;
    }
  }
}

std::vector<std::string> without(std::span<const std::string> ids,
                                 const std::set<std::string>& known) {
  std::vector<std::string> rest;
  std::ranges::copy_if(ids, std::back_inserter(rest),
                       [&](const std::string& id) { return !known.contains(id); });
  return rest;
}

// The ids that have no task in `tasks`.
std::vector<std::string> unknown_ids(std::span<const std::string> ids,
                                     const std::vector<TaskState>& tasks) {
  std::set<std::string> known;
  for (const TaskState& task : tasks) {
    known.insert(task.job);
    known.insert(job_of(task.job));
  }
  return without(ids, known);
}

std::string problem_of(const std::string& program, const ProgramResult& result) {
  const std::string complaint = plain_complaint(result.error);
  if (!complaint.empty()) return program + ": " + complaint;
  return fmt::format("{}: exited with status {}", program, result.exit_status);
}

std::string with_remedy(const std::string& complaint) {
  const std::string remedy = remedy_for_refusal(complaint);
  return remedy.empty() ? complaint : complaint + "; " + remedy;
}

[[noreturn]] void throw_problem(const std::string& program, const ProgramResult& result) {
  const std::string problem = problem_of(program, result);
  if (says_unavailable(problem)) throw QueueUnavailable(problem);
  throw std::runtime_error(problem);
}

}  // namespace

ProgramResult SlurmQueue::call(const std::vector<std::string>& words,
                               const std::vector<std::string>& environment) {
  try {
    ProgramResult result = run_program(words, environment, time_limit_);
    // At a limit on jobs, sbatch itself sleeps and tries again, for minutes.
    if (result.timed_out && says_too_many_jobs(result.error)) {
      throw QueueRefused("sbatch: " + plain_complaint(result.error), true);
    }
    if (result.timed_out) {
      throw QueueUnavailable(
          fmt::format("{} had no answer within {} s{}{}", words[0], time_limit_.count() / 1000,
                      result.error.empty() ? "" : ": ", plain_complaint(result.error)));
    }
    return result;
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) throw;
    throw ConfigError("", "", words[0] + " is not here: is this a login node of a Slurm cluster?");
  }
}

std::string SlurmQueue::answer(const std::vector<std::string>& words) {
  const ProgramResult result = call(words, program_environment());
  if (result.exit_status != 0) throw QueueUnavailable(problem_of(words[0], result));
  return result.output;
}

std::vector<Partition> SlurmQueue::partitions() {
  return read_partitions(answer({"scontrol", "--oneliner", "show", "partition"}));
}

const SlurmConfig& SlurmQueue::config() {
  if (!config_) config_ = read_config(answer({"scontrol", "show", "config"}));
  return *config_;
}

std::string SlurmQueue::submit(const std::filesystem::path& script) {
  const ProgramResult result = call({"sbatch", "--parsable", script.string()},
                                    submission_environment(read_text_file(script)));
  if (result.exit_status == 0) return read_submitted(result.output);
  const std::string complaint = plain_complaint(result.error);
  if (says_too_many_jobs(complaint)) throw QueueRefused("sbatch: " + complaint, true);
  constexpr int kUsageError = 255;  // a wrong option, for example; 129 to 254 mean a signal
  const bool was_killed = result.exit_status > 128 && result.exit_status < kUsageError &&
                          !says_submission_failed(result.error);
  if (complaint.empty() || was_killed || says_unavailable(complaint)) {
    throw QueueUnavailable(problem_of("sbatch", result));
  }
  throw QueueRefused("sbatch refuses the job: " + with_remedy(complaint), false);
}

std::optional<std::string> SlurmQueue::refusal(const std::filesystem::path& script) {
  const ProgramResult result = call({"sbatch", "--test-only", script.string()},
                                    submission_environment(read_text_file(script)));
  if (result.exit_status == 0) return std::nullopt;
  const std::string complaint = plain_complaint(result.error);
  if (complaint.empty() || says_unavailable(complaint)) {
    throw QueueUnavailable(problem_of("sbatch", result));
  }
  return with_remedy(complaint);
}

std::optional<std::string> SlurmQueue::find_submission(const std::filesystem::path& script,
                                                       uid_t user) {
  return read_submission(answer({"squeue", "--noheader", "--all", fmt::format("--user={}", user),
                                 "--states=all", "--format=%F|%o"}),
                         script);
}

// The controller sends one job, or all jobs of one user. Without a user it sends the whole queue.
std::vector<TaskState> SlurmQueue::query_squeue(std::span<const std::string> jobs, uid_t user) {
  std::vector<std::string> words = {"squeue", "--noheader", "--all", "--array", "--states=all"};
  if (jobs.size() > 1) words.push_back(fmt::format("--user={}", user));
  const std::string list = jobs_option(jobs);
  if (list.size() <= kLongestList) words.push_back(list);
  words.emplace_back(kSqueueFormat);
  const ProgramResult result = call(words, program_environment());
  if (result.exit_status == 0) return read_squeue(result.output);
  // squeue fails for a single unknown id. Among several ids, it omits unknown ones silently.
  if (!says_job_is_gone(plain_complaint(result.error))) {
    throw QueueUnavailable(problem_of("squeue", result));
  }
  return {};
}

std::optional<std::vector<TaskState>> SlurmQueue::query_sacct(std::span<const std::string> ids) {
  std::vector<TaskState> tasks;
  while (!ids.empty()) {
    const auto some = ids.first(std::min<size_t>(ids.size(), 1000));
    ids = ids.subspan(some.size());
    // sacct knows tasks that never started by their array only.
    std::vector<std::string> words = {
        "sacct",     "--allocations", "--noheader", "--parsable2", jobs_option(jobs_of(some)),
        kSacctFormat};
    // Unlike the other programs, sacct ignores SLURM_CLUSTERS.
    if (!limits().cluster.empty()) words.push_back("--clusters=" + limits().cluster);
    const ProgramResult result = call(words, program_environment());
    if (result.exit_status != 0) return std::nullopt;
    for (TaskState& task : read_sacct(result.output)) {
      // sacct lags and may miss an end, so only ended tasks count. squeue knows the running ones.
      if (task.phase == TaskPhase::kEnded) tasks.push_back(std::move(task));
    }
  }
  return tasks;
}

std::vector<TaskState> SlurmQueue::query_scontrol(std::span<const std::string> ids) {
  const std::vector<std::string> not_asked_for = without(ids, gone_);
  std::vector<TaskState> tasks;
  for (const std::string& job : jobs_of(not_asked_for)) {
    const ProgramResult result =
        call({"scontrol", "--all", "--oneliner", "show", "job", job}, program_environment());
    if (result.exit_status == 0) {
      add_wanted(not_asked_for, read_scontrol_jobs(result.output), tasks);
    } else if (!says_job_is_gone(plain_complaint(result.error))) {
      throw QueueUnavailable(problem_of("scontrol", result));
    }
  }
  for (const std::string& id : unknown_ids(not_asked_for, tasks)) gone_.insert(id);
  return tasks;
}

std::vector<TaskState> SlurmQueue::query(std::span<const std::string> ids, uid_t user) {
  std::vector<TaskState> tasks;
  if (ids.empty()) return tasks;
  add_wanted(ids, query_squeue(jobs_of(ids), user), tasks);
  std::vector<std::string> unknown = unknown_ids(ids, tasks);
  if (unknown.empty()) return tasks;
  std::string why_unknown;
  if (config().hides_jobs && user != geteuid())
    why_unknown = "Slurm shows the job to its user only";
  if (config().has_accounting) {
    const std::optional<std::vector<TaskState>> ended = query_sacct(unknown);
    if (ended) add_wanted(unknown, *ended, tasks);
    if (!ended) why_unknown = "sacct does not answer";
    unknown = unknown_ids(unknown, tasks);
  }
  add_wanted(unknown, query_scontrol(unknown), tasks);
  if (why_unknown.empty()) return tasks;
  for (const std::string& id : unknown_ids(unknown, tasks)) {
    tasks.push_back(
        {.job = id, .phase = TaskPhase::kEnding, .state = kHiddenState, .reason = why_unknown});
  }
  return tasks;
}

namespace {

// Adds the jobs that scancel could not end: "Kill job error on job id 12: Access/permission
// denied". Returns false if scancel failed for another reason.
bool add_refusals(std::string_view error, std::span<const std::string> jobs,
                  std::map<std::string, std::string>& refused) {
  constexpr std::string_view kJob = "job id ";
  bool is_known = false;
  for (const auto part : error | std::views::split('\n')) {
    const std::string line = plain_complaint({part.begin(), part.end()});
    const size_t job = line.find(kJob);
    const bool names_job = job != line.npos;
    const std::string name = names_job ? line.substr(job + kJob.size()) : "";
    const auto known = std::ranges::find(jobs, name.substr(0, name.find(':')));
    if (says_job_is_gone(line)) {
      is_known = true;
    } else if (known != jobs.end()) {
      refused[*known] = line;
      is_known = true;
    }
  }
  return is_known && !says_unavailable(error);
}

}  // namespace

std::map<std::string, std::string> SlurmQueue::cancel(std::span<const std::string> jobs_or_tasks) {
  std::map<std::string, std::string> refused;
  while (!jobs_or_tasks.empty()) {
    const auto some = jobs_or_tasks.first(std::min<size_t>(jobs_or_tasks.size(), 1000));
    jobs_or_tasks = jobs_or_tasks.subspan(some.size());
    std::vector<std::string> words = {"scancel"};
    words.insert(words.end(), some.begin(), some.end());
    const ProgramResult result = call(words, program_environment());
    if (result.exit_status == 0 || add_refusals(result.error, some, refused)) continue;
    throw_problem("scancel", result);
  }
  return refused;
}

std::optional<TaskAccounts> SlurmQueue::accounts(const std::string& task) {
  if (!config().has_accounting) return std::nullopt;
  const ProgramResult result = call(
      {"sacct", "--noheader", "--parsable2", "--duplicates", jobs_option({{task}}), kSacctAccounts},
      program_environment());
  return result.exit_status == 0 ? read_accounts(result.output) : std::nullopt;
}

void SlurmQueue::requeue(const std::string& job) {
  const ProgramResult result = call({"scontrol", "requeue", job}, program_environment());
  if (result.exit_status != 0) throw_problem("scontrol", result);
}

namespace {

using std::string_view_literals::operator""sv;

bool changes_answers(std::string_view name) {
  static constexpr std::array kPrefixes = {"SQUEUE_"sv,   "SACCT_"sv, "SCANCEL_"sv,
                                           "SCONTROL_"sv, "SLURM_"sv, "LC_"sv};
  // These variables locate the cluster and identify the user.
  static constexpr std::array kKept = {"SLURM_CONF"sv, "SLURM_CONF_SERVER"sv, "SLURM_CLUSTERS"sv,
                                       "SLURM_JWT"sv};
  return std::ranges::find(kKept, name) == kKept.end() &&
         std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

// True if sbatch must not see the variable. A variable with is_default may pass unless `script`
// sets an option of the same key.
bool is_outranked(std::string_view name, std::string_view script) {
  const auto own = std::ranges::find(script_options(), name, &ScriptOption::variable);
  if (own == script_options().end()) return false;
  return !own->is_default || std::ranges::any_of(script_options(), [&](const ScriptOption& each) {
    const std::regex line(fmt::format("\n#SBATCH \"?{}[=\n]", each.name));
    return each.key == own->key && std::regex_search(script.begin(), script.end(), line);
  });
}

// This process's variables with names that satisfy `is_kept`.
template <typename IsKept>
std::vector<std::string> variables_that(const IsKept& is_kept) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : own_environment()) {
    if (is_kept(name)) variables.push_back(name + '=' + value);
  }
  return variables;
}

}  // namespace

std::vector<std::string> program_environment() {
  auto variables = variables_that([](std::string_view name) { return !changes_answers(name); });
  variables.emplace_back("LC_ALL=C");
  variables.emplace_back("SLURM_BITSTR_LEN=0");  // lists of an array's tasks are not cut short
  return variables;
}

std::vector<std::string> submission_environment(std::string_view script) {
  return variables_that([&](std::string_view name) {
    const bool is_language = name.starts_with("LC_");  // the user's, for the job
    return (is_language || !changes_answers(name)) && !is_outranked(name, script);
  });
}

std::unique_ptr<Queue> make_queue(std::chrono::milliseconds time_limit) {
  return std::make_unique<SlurmQueue>(time_limit);
}

}  // namespace fsdp
