#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/commands/commands.h"
#include "runner/experiment/doubling_series.h"
#include "runner/host/host.h"
#include "runner/progress/progress.h"
#include "runner/slurm/slurm.h"
#include "runner/slurm/step_launcher.h"
#include "runner/store/scratch_folder.h"
#include "runner/sweep/allocation_plan.h"
#include "runner/sweep/earlier_attempts.h"
#include "runner/sweep/job_submission.h"
#include "runner/sweep/planned_runs.h"
#include "runner/sweep/run_experiment.h"
#include "runner/sweep/run_planner.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/unix_time.h"

// What the job of an experiment with slurm.mode: allocation runs. Hidden: job scripts call it.
namespace fsdp {
namespace {

// Of the job that this process runs in.
struct ThisJob {
  std::string id;
  std::string node_list;
  std::string node;  // this one
  int64_t restarts = 0;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

ThisJob this_job() {
  const std::string restarts = variable("SLURM_RESTART_COUNT");
  ThisJob job{.id = variable("SLURM_JOB_ID"),
              .node_list = variable("SLURM_JOB_NODELIST"),
              .node = variable("SLURMD_NODENAME"),
              .restarts = restarts.empty() ? 0 : std::stoll(restarts)};
  if (job.id.empty() || job.id.find_first_not_of("0123456789") != std::string::npos) {
    throw ConfigError("", "allocation",
                      "works inside of a job of Slurm only (SLURM_JOB_ID is not set); "
                      "`fsdp-run FILE --launcher slurm` submits one");
  }
  return job;
}

// The job in the store on this node, which may know it already.
int64_t record(const ThisJob& job, const AllocationPlan& plan, const std::string& experiment,
               Store& store) {
  for (const JobRecord& known : store.open_jobs(experiment)) {
    if (known.token != plan.token) continue;
    store.set_slurm_job(known.id, job.id);
    return known.id;
  }
  return store.record_job({.experiment = experiment,
                           .token = plan.token,
                           .slurm_job = job.id,
                           .mode = "allocation",
                           .folder = {},
                           .submitted_unix_ms = now_unix_ms(),
                           .provenance = Provenance(),
                           .tasks = {}});
}

// Those that were submitted of the runs that the planner in the job came to.
std::vector<RunToLaunch> submitted(std::vector<RunToLaunch> runs, const AllocationPlan& plan) {
  std::erase_if(runs, [&](const RunToLaunch& run) {
    return std::ranges::find(plan.runs, run.record.folder.string()) == plan.runs.end();
  });
  if (runs.size() == plan.runs.size()) return runs;
  throw ConfigError(plan.file.string(), "",
                    "its runs are not those that were submitted: an input file has changed since, "
                    "or looks different from this node; submit it again");
}

Allocation allocation_of(const ThisJob& job, const AllocationPlan& plan,
                         const std::vector<RunToLaunch>& runs) {
  Allocation allocation{.job = job.id,
                        .slurm = slurm_of_all(runs),
                        .size = largest_request(runs),
                        .working_directory = plan.working_directory,
                        .folders = input_folders_of(runs)};
  if (std::ranges::find(allocation.folders, plan.results) == allocation.folders.end()) {
    allocation.folders.push_back(plan.results);
  }
  return allocation;
}

std::optional<std::chrono::seconds> time_limit(const AllocationPlan& plan) {
  if (plan.time_limit_s == 0) return std::nullopt;
  return std::chrono::seconds(std::lround(plan.time_limit_s));
}

// The experiment as the user's runner planned it, in a database on this node.
class Planned {
 public:
  Planned(const std::filesystem::path& folder, const AllocationPlan& plan, Progress& progress)
      : store_(with_copy(local_.path(), folder)),
        experiment_(load_planned_experiment(folder, plan)),
        digest_(remembered([this](const std::filesystem::path& file) {
          const auto known = store_.digest(file);
          return known ? *known : file_digest(file);
        })),
        planner_(store_, experiment_, digest_,
                 {.device_kind = slurm_device_kind,
                  .rerun = plan.rerun,
                  .say = [&](const std::string& line) { progress.say(line); }}) {
    const Expansion expansion = experiment_.expand(
        {.profile = plan.profile, .set = plan.set, .only = plan.only, .on_cluster = true},
        Resources());
    runs_ = submitted(planner_.plan({.name = experiment_.name(),
                                     .title = experiment_.title(),
                                     .file = plan.file,
                                     .text = experiment_.text(),
                                     .text_digest = text_digest(experiment_.text()),
                                     .profile = expansion.profile},
                                    expansion, planned_runs(experiment_, expansion.runs, digest_),
                                    left_out_runs(experiment_, expansion.left_out, digest_)),
                      plan);
  }

  Store& store() { return store_; }
  const std::string& experiment() const { return experiment_.name(); }
  RunPlanner& planner() { return planner_; }
  const std::vector<RunToLaunch>& runs() const { return runs_; }

 private:
  static const std::filesystem::path& with_copy(const std::filesystem::path& local,
                                                const std::filesystem::path& folder) {
    copy_planning_store(folder, local);
    return local;
  }

  ScratchFolder local_;
  Store store_;
  Experiment experiment_;
  FileDigest digest_;
  RunPlanner planner_;
  std::vector<RunToLaunch> runs_;
};

struct Outcome {
  ExitCode code = ExitCode::kOk;
  bool goes_on = false;  // in the job's next start
};

// All of it is over, and nothing on this node is left, when this returns.
Outcome run_in(const ThisJob& job, const std::filesystem::path& folder) {
  const AllocationPlan plan = read_allocation_plan(folder);
  std::filesystem::current_path(plan.working_directory);
  const std::unique_ptr<Progress> progress = make_progress(ProgressMode::kAutomatic);
  Planned planned(folder, plan, *progress);
  const SlurmSpec slurm = slurm_of_all(planned.runs());
  if (job.restarts > slurm.max_restarts) {
    throw ConfigError(
        "", "slurm.max_restarts",
        "the job was started again " + std::to_string(slurm.max_restarts) + " times already");
  }
  const auto follow_up = [&](const RunToLaunch& ended, RunStatus status) {
    return planned.planner().after(ended, status);
  };
  StepLauncher launcher(allocation_of(job, plan, planned.runs()));
  Sweep sweep(planned.store(), launcher, *progress,
              {.results = plan.results,
               .trainer = plan.trainer,
               .host = job.node.empty() ? host_name() : job.node,
               .provenance = Provenance(),
               .time_limit = time_limit(plan),
               .device_kind = slurm_device_kind,
               .follow_up = follow_up,
               .job = JobOfSweep{job.id, job.node_list}});
  const ExitCode code = sweep.run(
      left_to_launch(planned.runs(), {planned.store(), *progress, plan.results},
                     record(job, plan, planned.experiment(), planned.store()), follow_up));
  progress->close();
  return {code, sweep.was_at_time_limit() && job.restarts < slurm.max_restarts};
}

ExitCode allocation(const std::filesystem::path& folder) {
  const ThisJob job = this_job();
  const Outcome outcome = run_in(job, folder);
  if (!outcome.goes_on) return outcome.code;
  try {
    SlurmPrograms().requeue(job.id);
  } catch (const std::exception& error) {
    std::cerr << "fsdp-run: Slurm does not start the job again (" << error.what()
              << "); what is left is submitted by the next `fsdp-run FILE --launcher slurm`\n";
  }
  return outcome.code;
}

}  // namespace

CommandFunction add_allocation_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("allocation", "")->group("");
  const auto folder = std::make_shared<std::filesystem::path>();
  command.add_option("FOLDER", *folder, "The submission's folder")->required();
  return [folder] { return allocation(*folder); };
}

}  // namespace fsdp
