#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runner/commands/commands.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/slurm/slurm.h"
#include "runner/sweep/experiment_lock.h"
#include "runner/sweep/refresh_jobs.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/yaml_value.h"

namespace fsdp {
namespace {

// How long a cancelled job is waited for; status tells of one that takes longer.
constexpr std::chrono::seconds kPatience{10};

struct CancelArguments {
  std::vector<std::string> words;  // none: every run
  std::filesystem::path results = "results";
};

struct Chosen {
  std::vector<std::string> jobs;  // as scancel wants them
  std::vector<std::string> lines;
  std::set<std::string> experiments;
};

void add_tasks(const JobRecord& job, const std::set<int64_t>& runs,
               const std::map<int64_t, RunRecord>& records, Chosen& chosen) {
  size_t open = 0;
  std::vector<const JobTask*> tasks;
  for (const JobTask& task : job.tasks) {
    open += task.over ? 0 : 1;
    if (!task.over && runs.contains(task.run)) tasks.push_back(&task);
  }
  if (tasks.empty()) return;
  const bool whole = tasks.size() == open;
  if (!whole && job.mode == "allocation") {
    throw ConfigError("cancel", "",
                      run_label(records.at(tasks.front()->run)) + " runs in job " + job.slurm_job +
                          " with others of the experiment, which it would end too; to end them "
                          "all: fsdp-run cancel " +
                          job.experiment);
  }
  chosen.experiments.insert(job.experiment);
  if (whole) chosen.jobs.push_back(job.slurm_job);
  for (const JobTask* task : tasks) {
    const std::string name = slurm_name(job, task->task);
    if (!whole) chosen.jobs.push_back(name);
    chosen.lines.push_back("job " + name + ": " + run_label(records.at(task->run)));
  }
}

Chosen choose(const Store& store, const std::set<int64_t>& runs) {
  std::map<int64_t, RunRecord> records;
  for (RunRecord& run : store.runs()) records.emplace(run.id, std::move(run));
  Chosen chosen;
  for (const JobRecord& job : store.open_jobs("")) {
    if (!job.slurm_job.empty()) add_tasks(job, runs, records, chosen);
  }
  return chosen;
}

// Runs that are no jobs have a runner, which only its user can stop.
void tell_of_runners(const Store& store, const CancelArguments& arguments,
                     const std::set<int64_t>& runs) {
  std::set<std::string> experiments;
  for (const RunRecord& run : store.runs()) {
    if (runs.contains(run.id)) experiments.insert(run.experiment);
  }
  for (const std::string& experiment : experiments) {
    std::string owner;
    if (ExperimentLock::if_free(arguments.results, experiment, owner)) continue;
    std::cout << "another fsdp-run (" << owner << ") is at work on '" << experiment
              << "': interrupt that one (Ctrl-C, or kill)\n";
  }
}

ExitCode cancel_command(const CancelArguments& arguments) {
  require_results(arguments.results);
  Store store(arguments.results);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  const Pauses pauses{.now = std::chrono::steady_clock::now,
                      .wait = [](std::chrono::milliseconds time) {
                        std::this_thread::sleep_for(time);
                        return false;
                      }};
  SlurmPrograms cluster;
  const std::set<int64_t> runs = find_runs(store, arguments.words);
  try {
    if (!store.open_jobs("").empty()) refresh_free_jobs(store, arguments.results, cluster, pauses);
    const Chosen chosen = choose(store, runs);
    if (chosen.jobs.empty()) {
      std::cout << "no job to cancel\n";
      tell_of_runners(store, arguments, runs);
      return ExitCode::kOk;
    }
    cluster.cancel(chosen.jobs);
    for (const std::string& line : chosen.lines) std::cout << "cancelled " << line << '\n';
    std::cout << std::flush;
  } catch (const SlurmUnavailable& error) {
    throw std::runtime_error("Slurm does not answer, nothing was cancelled: " +
                             std::string(error.what()));
  }
  // So that the results tell; a runner that follows the jobs sees it by itself.
  do {
    refresh_free_jobs(store, arguments.results, cluster, pauses);
    if (choose(store, runs).jobs.empty()) return ExitCode::kOk;
    pauses.wait(std::chrono::seconds(1));
  } while (pauses.now() < end);
  std::cout << "they take a while to end; fsdp-run status tells when they have\n";
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_cancel_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("cancel", "End jobs of Slurm");
  const auto arguments = std::make_shared<CancelArguments>();
  command.footer(R"(Examples:
  fsdp-run cancel lab                      all jobs of an experiment
  fsdp-run cancel lab/4xFSDP lab/8xFSDP    those of two runs
  fsdp-run cancel                          all of the results folder)");
  command.add_option("WHAT", arguments->words, "Experiments, their files, or runs (default: all)")
      ->option_text(" ");
  add_results_option(command, arguments->results);
  return [arguments] { return cancel_command(*arguments); };
}

}  // namespace fsdp
