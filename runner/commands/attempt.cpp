#include <unistd.h>

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
#include <thread>
#include <vector>

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "runner/cluster/answers.h"
#include "runner/cluster/job_plan.h"
#include "runner/cluster/job_submission.h"
#include "runner/cluster/queue.h"
#include "runner/cluster/script.h"
#include "runner/cluster/step_launcher.h"
#include "runner/commands/commands.h"
#include "runner/host/host.h"
#include "runner/plan/planner.h"
#include "runner/progress/progress.h"
#include "runner/run/earlier_attempts.h"
#include "runner/run/run_loop.h"

// The command that jobs execute. It attempts all runs of the experiment (slurm.mode: allocation),
// or the runs of one array task (per_run). Hidden, because only job scripts call it.
namespace fsdp {
namespace {

// The job that this process runs in.
struct ThisJob {
  std::string id;
  std::string name;  // "12"; for an array task "12_3"
  int64_t task = 0;
  std::string node_list;
  std::string node;  // of this process
  int64_t restarts = 0;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns 0 if the variable is not set.
int64_t number_in(const char* name) {
  const std::string text = variable(name);
  return text.empty() ? 0 : std::stoll(text);
}

ThisJob this_job(SlurmMode mode) {
  ThisJob job{.id = variable("SLURM_JOB_ID"),
              .name = variable("SLURM_JOB_ID"),
              .node_list = variable("SLURM_JOB_NODELIST"),
              .node = variable("SLURMD_NODENAME"),
              .restarts = number_in("SLURM_RESTART_COUNT")};
  if (job.id.empty() || job.id.find_first_not_of("0123456789") != std::string::npos) {
    throw ConfigError("", "attempt",
                      "works inside of a job of Slurm only (SLURM_JOB_ID is not set); "
                      "`fsdp-run FILE --launcher slurm` submits one");
  }
  if (mode == SlurmMode::kPerRun) {
    job.task = number_in("SLURM_ARRAY_TASK_ID");
    job.name = variable("SLURM_ARRAY_JOB_ID") + '_' + std::to_string(job.task);
  }
  return job;
}

// Returns the provenance. The trainer in a container's image cannot be read from here.
Provenance provenance_of(const std::filesystem::path& folder, const JobPlan& plan,
                         const SlurmContainerSpec& container, FileDigests& digests) {
  const bool is_in_image = container.engine != ContainerEngine::kNone && !container.trainer.empty();
  return provenance_of_this_process(plan.git, is_in_image ? "" : digests.current(plan.trainer),
                                    load_planned_experiment(folder, plan).text());
}

// Sets the nodes and GPUs that each of the job's runs holds. Runs side by side hold equal shares.
void add_held_devices(const SlurmSpec& slurm, size_t runs, JobOfLoop& job) {
  const int64_t most = slurm.mode == SlurmMode::kAllocation ? slurm.max_parallel : 1;
  const auto side_by_side =
      static_cast<double>(std::clamp<int64_t>(most, 1, static_cast<int64_t>(runs)));
  const auto nodes = static_cast<double>(std::max<int64_t>(number_in("SLURM_JOB_NUM_NODES"), 1));
  const double gpus = static_cast<double>(number_in("SLURM_GPUS_ON_NODE")) * nodes;
  job.nodes_held = nodes / side_by_side;
  if (gpus > 0) job.gpus_held = gpus / side_by_side;
}

std::optional<std::chrono::seconds> time_limit(const JobPlan& plan) {
  if (plan.time_limit_s == 0) return std::nullopt;
  return std::chrono::seconds(std::lround(plan.time_limit_s));
}

struct Outcome {
  ExitCode code = ExitCode::kOk;
  bool goes_on = false;  // true: runs are left for the job's next start
};

// Describes the job for readers of its output.
void show_job(const ThisJob& job, const std::vector<RunRecord>& runs, Progress& progress) {
  progress.say("job " + job.name + " on " + job.node_list + ", start " +
               std::to_string(job.restarts + 1) + ", OMP_NUM_THREADS " +
               variable("OMP_NUM_THREADS"));
  for (const RunRecord& run : runs) {
    progress.say(run_configuration(run.point, run.spec));
  }
}

// Returns the host for predictions. Nothing else depends on it.
Host host_of_job() {
  try {
    return find_host({});
  } catch (const ConfigError&) {  // CUDA_VISIBLE_DEVICES names GPUs that are not here
    return {};
  }
}

// Attempts the runs. On return all runs are over, and no process is left on this node.
Outcome run_in(const ThisJob& job, const std::filesystem::path& folder, const JobPlan& plan) {
  std::filesystem::current_path(plan.working_directory);
  const std::unique_ptr<Progress> progress = make_progress(ProgressMode::kAutomatic);
  const std::vector<JobRun> job_runs = read_job_runs(folder, plan, job.task);
  FileDigests digests;
  std::vector<RunRecord> runs;
  for (const JobRun& each : job_runs) {
    runs.push_back(each.run);
    runs.back().begins_anew = each.begins_anew.value_or(false);
    for (const KnownFile& file : each.inputs) digests.add(file);
  }
  const SlurmSpec slurm = slurm_of_all(runs);
  show_job(job, runs, *progress);
  DoubledRuns doubled(folder, plan, job_runs, digests, *progress);
  const auto follow_up = [&](const RunRecord& ended, RunStatus status) {
    return doubled.after(ended, status);
  };
  const Expansion of_no_profile;
  RunPredictions predictions(of_no_profile, host_of_job(), plan.trainer, plan.results);
  StepLauncher launcher({.job = job.id,
                         .slurm = slurm,
                         .size = largest_request(runs),
                         .working_directory = plan.working_directory,
                         .folders = folders_of_container(plan, runs)});
  JobOfLoop job_of_loop{.id = job.name, .node_list = job.node_list};
  add_held_devices(slurm, runs.size(), job_of_loop);
  std::vector<RunRecord> left =
      left_to_launch(runs, plan.results, job_of_loop, digests, *progress, follow_up);
  const bool some_gave_up = std::ranges::any_of(
      job_of_loop.ended, [&](const auto& run) { return run.second.in_a_row > slurm.max_restarts; });
  RunLoop loop(launcher, *progress, digests, nullptr,
               {.results = plan.results,
                .trainer = plan.trainer,
                .host = job.node.empty() ? host_name() : job.node,
                .provenance = provenance_of(folder, plan, slurm.container, digests),
                .time_limit = time_limit(plan),
                .device_kind = slurm_device_kind,
                .predict = [&](const RunSpec& spec) { return predictions.predict(spec); },
                .follow_up = follow_up,
                .job = std::move(job_of_loop),
                .owner = folder.filename().string()});
  ExitCode code = loop.run(std::move(left));
  if (some_gave_up && code == ExitCode::kOk) code = ExitCode::kRunFailed;
  progress->close();
  return {code, loop.needs_another_start() && slurm.max_restarts > 0};
}

// A job asks to be requeued for this long at most. At its time limit, Slurm ends it earlier.
constexpr std::chrono::minutes kRequeuePatience{10};
constexpr std::chrono::seconds kLongestRequeuePause{10};

// Requeues the job unless Slurm is ending it: a cancelled job must stay cancelled. If Slurm fails,
// asks again while there is time.
void requeue(const std::string& job) {
  const std::unique_ptr<Queue> queue = make_queue();
  const auto deadline = std::chrono::steady_clock::now() + kRequeuePatience;
  for (std::chrono::seconds pause{1};; pause = std::min(2 * pause, kLongestRequeuePause)) {
    try {
      const std::vector<TaskState> states = queue->query({{job}}, geteuid());
      if (!states.empty() && states.front().phase == TaskPhase::kRunning) queue->requeue(job);
      return;
    } catch (const std::runtime_error& error) {
      if (std::chrono::steady_clock::now() + pause > deadline) throw;
      std::cerr << "fsdp-run: Slurm does not start the job again (" << visible_line(error.what())
                << "); it is asked again\n";
    }
    std::this_thread::sleep_for(pause);
  }
}

ExitCode attempt(const std::filesystem::path& folder) {
  const JobPlan plan = read_job_plan(folder);
  const ThisJob job = this_job(plan.mode);
  const std::string submitted = job_of(job.name);
  if (const std::string by = claim_submission(folder, submitted); by != submitted) {
    std::cerr << "fsdp-run: this job does nothing, because its runs "
              << (by == kWithdrawn ? "were submitted again" : "belong to job " + by) << '\n';
    return ExitCode::kOk;
  }
  const Outcome outcome = run_in(job, folder, plan);
  if (!outcome.goes_on) return outcome.code;
  try {
    requeue(job.name);
  } catch (const std::exception& error) {
    std::cerr << "fsdp-run: Slurm does not start the job again (" << visible_line(error.what())
              << "); what is left is submitted by the next `fsdp-run FILE --launcher slurm`\n";
  }
  return outcome.code;
}

}  // namespace

CommandFunction add_attempt_command(CLI::App& command) {
  const auto folder = std::make_shared<std::filesystem::path>();
  command.add_option("FOLDER", *folder, "The submission's folder")->required();
  return [folder] { return attempt(*folder); };
}

}  // namespace fsdp
