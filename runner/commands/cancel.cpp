#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>

#include "base/text/utf8.h"
#include "runner/cluster/answers.h"
#include "runner/cluster/open_jobs.h"
#include "runner/cluster/queue.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/run/locks.h"

namespace fsdp {
namespace {

// The time to wait for a cancelled job; `status` tells of jobs that take longer.
constexpr std::chrono::seconds kPatience{10};

struct CancelArguments {
  std::vector<std::string> words;  // none: every run
  std::filesystem::path results = "results";
};

// Names the runners that may still start or submit runs that are in no job. Only a runner's user
// can stop it.
void name_runners(const Store& store, const CancelArguments& arguments,
                  const std::set<int64_t>& runs) {
  const std::set<int64_t> in_jobs = runs_in_jobs(store);
  std::set<std::string> experiments;
  for (const RunRecord& run : store.runs()) {
    const bool is_to_end = run.status == RunStatus::kPlanned || run.status == RunStatus::kRunning;
    if (!runs.contains(run.id) || in_jobs.contains(run.id) || !run.current) continue;
    if (is_to_end) experiments.insert(run.experiment);
  }
  for (const std::string& experiment : experiments) {
    std::string owner;
    if (ExperimentLock::if_free(arguments.results, experiment, owner)) continue;
    std::cout << visible_line("another fsdp-run (" + owner + ") is at work on '" + experiment)
              << "': interrupt that one (Ctrl-C, or kill)\n";
  }
}

// Waits until the results tell that the jobs ended. A runner that follows the jobs records their
// ends itself.
void wait_for_end(Store& store, const CancelArguments& arguments, const JobsToCancel& chosen,
                  Queue& queue) {
  const Pauses pauses = real_pauses();
  const auto end = pauses.now() + kPatience;
  do {
    refresh_free_jobs(store, arguments.results, experiments_in_jobs(store), &queue, pauses);
    const std::set<int64_t> open = runs_in_jobs(store);
    const auto is_open = [&](const auto& task) { return open.contains(task.run.id); };
    if (std::ranges::none_of(chosen.tasks, is_open)) return;
    pauses.wait(std::chrono::seconds(1));
  } while (pauses.now() < end);
  std::cout << "the jobs take a while to end; fsdp-run status shows when they have ended\n";
}

// Names the tasks that Slurm refuses to end, and drops them from `tasks`. True if there are any.
bool tell_refused(const std::map<std::string, std::string>& refused,
                  std::vector<JobsToCancel::Task>& tasks) {
  const auto is_refused = [&](const JobsToCancel::Task& task) {
    const auto whole = refused.find(job_of(task.name));
    const auto found = whole == refused.end() ? refused.find(task.name) : whole;
    if (found == refused.end()) return false;
    std::cerr << visible_line(fmt::format("not cancelled: job {}: {}: {}", task.name,
                                          run_label(task.run), found->second))
              << '\n';
    return true;
  };
  return std::erase_if(tasks, is_refused) > 0;
}

ExitCode cancel_command(const CancelArguments& arguments) {
  Store store = existing_results(arguments.results);
  const std::unique_ptr<Queue> queue = make_queue();
  std::string here;
  JobsToCancel chosen;
  std::map<std::string, std::string> refused;
  const std::set<int64_t> runs = find_runs(store, arguments.words);
  try {
    if (!store.open_jobs("").empty()) {
      here = queue->limits().cluster;
      refresh_free_jobs(store, arguments.results, experiments_in_jobs(store), queue.get(),
                        real_pauses());
    }
    chosen = jobs_to_cancel(store, runs, here);
    if (!chosen.other_clusters.empty()) {
      std::cout << visible_line(left_alone(chosen.other_clusters)) << '\n';
    }
    if (!chosen.names.empty()) refused = queue->cancel(chosen.names);
  } catch (const QueueUnavailable& error) {
    throw std::runtime_error(
        "Slurm does not answer, so it is not known if jobs were cancelled; call again when it "
        "answers: " +
        std::string(error.what()));
  }
  const bool some_refused = tell_refused(refused, chosen.tasks);
  for (const JobsToCancel::Task& task : chosen.tasks) {
    // Slurm may keep no record of a task that never ran.
    store.record_status(task.run.id, RunStatus::kCancelled, "cancelled by fsdp-run cancel");
    std::cout << "cancelled job " << visible_line(task.name) << ": " << run_label(task.run) << '\n';
  }
  if (chosen.names.empty()) {
    std::cout << "no job to cancel\n";
  } else {
    std::cout << std::flush;
    wait_for_end(store, arguments, chosen, *queue);
  }
  name_runners(store, arguments, runs);
  return some_refused ? ExitCode::kRunFailed : ExitCode::kOk;
}

}  // namespace

CommandFunction add_cancel_command(CLI::App& command) {
  const auto arguments = std::make_shared<CancelArguments>();
  command.footer(R"(Examples:
  fsdp-run cancel lab                      all jobs of an experiment
  fsdp-run cancel lab/4xFSDP lab/8xFSDP    those of two runs
  fsdp-run cancel                          all of the results folder)");
  command.add_option("WHAT", arguments->words, "Experiments, their files, or runs (default: all)");
  add_results_option(command, arguments->results);
  return [arguments] { return cancel_command(*arguments); };
}

}  // namespace fsdp
