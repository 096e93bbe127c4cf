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

#include "contract/text/config_error.h"
#include "contract/text/utf8.h"
#include "runner/commands/commands.h"
#include "runner/host/host.h"
#include "runner/progress/progress.h"
#include "runner/slurm/slurm.h"
#include "runner/slurm/step_launcher.h"
#include "runner/sweep/allocation_plan.h"
#include "runner/sweep/earlier_attempts.h"
#include "runner/sweep/job_submission.h"
#include "runner/sweep/planned_allocation.h"
#include "runner/sweep/run_experiment.h"

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

struct Outcome {
  ExitCode code = ExitCode::kOk;
  bool goes_on = false;  // in the job's next start
};

// All of it is over, and nothing on this node is left, when this returns.
Outcome run_in(const ThisJob& job, const std::filesystem::path& folder) {
  const AllocationPlan plan = read_allocation_plan(folder);
  std::filesystem::current_path(plan.working_directory);
  const std::unique_ptr<Progress> progress = make_progress(ProgressMode::kAutomatic);
  PlannedAllocation planned(folder, plan, *progress);
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
  const ExitCode code =
      sweep.run(left_to_launch(planned.runs(), {planned.store(), *progress, plan.results},
                               planned.record_job(job.id), follow_up));
  progress->close();
  return {code, sweep.is_to_go_on() && job.restarts < slurm.max_restarts};
}

// Unless Slurm is ending it: what was cancelled stays so.
void requeue(const std::string& job) {
  SlurmPrograms cluster;
  const std::vector<TaskState> states = cluster.query({{job}});
  if (!states.empty() && states.front().phase == TaskPhase::kRunning) cluster.requeue(job);
}

ExitCode allocation(const std::filesystem::path& folder) {
  const ThisJob job = this_job();
  const Outcome outcome = run_in(job, folder);
  if (!outcome.goes_on) return outcome.code;
  try {
    requeue(job.id);
  } catch (const std::exception& error) {
    std::cerr << "fsdp-run: Slurm does not start the job again (" << visible_line(error.what())
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
