#include <chrono>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/text/utf8.h"
#include "runner/cluster/open_jobs.h"
#include "runner/cluster/slurm.h"
#include "runner/commands/commands.h"
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

// Tells of runs in no job. They may have a runner, which starts or submits them later. Only its
// user can stop it.
void tell_of_runners(const Store& store, const CancelArguments& arguments,
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

// Waits until the results tell that the jobs ended. A runner that follows them sees it by itself.
void wait_for_end(Store& store, const CancelArguments& arguments, const std::set<int64_t>& runs,
                  Queue& queue, std::string_view here) {
  const Pauses pauses = real_pauses();
  const auto end = pauses.now() + kPatience;
  do {
    refresh_free_jobs(store, arguments.results, queue, pauses);
    if (jobs_to_cancel(store, runs, here).names.empty()) return;
    pauses.wait(std::chrono::seconds(1));
  } while (pauses.now() < end);
  std::cout << "they take a while to end; fsdp-run status tells when they have\n";
}

ExitCode cancel_command(const CancelArguments& arguments) {
  Store store = existing_results(arguments.results);
  SlurmQueue queue;
  std::string here;
  JobsToCancel chosen;
  const std::set<int64_t> runs = find_runs(store, arguments.words);
  try {
    if (!store.open_jobs("").empty()) {
      here = queue.limits().cluster;
      refresh_free_jobs(store, arguments.results, queue, real_pauses());
    }
    chosen = jobs_to_cancel(store, runs, here);
    if (!chosen.other_clusters.empty()) {
      std::cout << visible_line(left_alone(chosen.other_clusters)) << '\n';
    }
    if (!chosen.names.empty()) queue.cancel(chosen.names);
  } catch (const QueueUnavailable& error) {
    throw std::runtime_error(
        "Slurm does not answer, nothing is known to be cancelled; call again "
        "when it does: " +
        std::string(error.what()));
  }
  for (const JobsToCancel::Task& task : chosen.tasks) {
    std::cout << "cancelled job " << visible_line(task.name) << ": " << run_label(task.run) << '\n';
  }
  if (chosen.names.empty()) {
    std::cout << "no job to cancel\n";
  } else {
    std::cout << std::flush;
    wait_for_end(store, arguments, runs, queue, here);
  }
  tell_of_runners(store, arguments, runs);
  return ExitCode::kOk;
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
