#include "runner/cluster/job_submission.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <ranges>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/files/whole_file.h"
#include "base/system/unix_time.h"
#include "contract/record/run_paths.h"
#include "contract/spec/yaml_value.h"
#include "runner/cluster/complaints.h"
#include "runner/cluster/request.h"
#include "runner/cluster/script.h"
#include "runner/run/attempt_files.h"
#include "runner/run/planned_runs.h"

namespace fsdp {
namespace {

// Returns a random number of 64 bits, which no other submission has.
std::string new_token() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}", source(), source());
}

bool is_allocation(const RunSpec& spec) { return spec.slurm.mode == SlurmMode::kAllocation; }

}  // namespace

std::optional<std::string> find_or_withdraw(Queue& queue, const std::filesystem::path& folder) {
  if (auto job = queue.find_submission(folder / kScriptName, submitter_of(folder))) return job;
  return withdraw_submission(folder);
}

void check_jobs_of(const Expansion& expansion) {
  const Run* checked = nullptr;
  for (const Run& run : expansion.runs) {
    check_at_place(expansion, run, [&] {
      if (checked == nullptr || !may_share_array(checked->spec, run.spec)) check_script(run.spec);
    });
    checked = &run;
  }
  if (std::ranges::none_of(expansion.runs, is_allocation, &Run::spec)) return;
  const Run& first = expansion.runs.front();
  for (const Run& run : expansion.runs) {
    check_at_place(expansion, run, [&] {
      check_one_job(first.point, first.spec.slurm, run.point, run.spec.slurm);
    });
  }
}

std::string slurm_device_kind(const RunSpec& spec) {
  const SlurmSpec& slurm = spec.slurm;
  std::string kind = spec.device == DeviceKind::kCpu ? "cpu" : "slurm";
  if (spec.device == DeviceKind::kCuda) {
    if (!slurm.partition.empty()) kind += ", partition " + slurm.partition;
    if (!slurm.gpu_type.empty()) kind += ", " + slurm.gpu_type;
    if (slurm.gpu_memory_gib) kind += ", " + shortest(*slurm.gpu_memory_gib) + " GiB";
  }
  return kind;
}

JobTask task_of(const RunRecord& run, int64_t number) {
  return {.task = number, .run = run.id, .device_kind = slurm_device_kind(run.spec)};
}

JobSubmission::JobSubmission(const RunListeners& listeners, Queue& queue, Settings settings)
    : listeners_(listeners), queue_(queue), settings_(std::move(settings)) {}

void JobSubmission::add(std::vector<RunRecord> runs) {
  std::ranges::move(runs, std::back_inserter(waiting_));
}

int64_t JobSubmission::waiting() const {
  return std::ssize(waiting_) + (prepared_ ? std::ssize(prepared_->runs) : 0);
}

std::vector<JobSubmission::Submission> JobSubmission::take_submitted() {
  return std::exchange(submitted_, {});
}

void JobSubmission::push() {
  check_are_there(listeners_.results);
  at_limit_ = false;
  if (prepared_) confirm_unanswered();
  if (!waiting_.empty() && !limits_) most_tasks_ = (limits_ = queue_.limits())->max_array_size;
  while (!waiting_.empty() && !at_limit_) {
    std::vector<RunRecord> runs = take_runs_of_next_job();
    try {
      prepared_ = prepare(runs);
    } catch (const std::exception&) {
      wait_again(std::move(runs));
      throw;
    }
    submit();
  }
}

void JobSubmission::wait_again(std::vector<RunRecord> runs) {
  waiting_.insert(waiting_.begin(), std::make_move_iterator(runs.begin()),
                  std::make_move_iterator(runs.end()));
}

bool JobSubmission::may_join(std::span<const RunRecord> job, const RunRecord& run) const {
  if (job.empty() || is_allocation(job.front().spec)) return job.empty() || is_allocation(run.spec);
  return std::ssize(job) < most_tasks_ && may_share_array(job.front().spec, run.spec);
}

std::vector<RunRecord> JobSubmission::take_runs_of_next_job() {
  std::vector<RunRecord> job;
  std::vector<RunRecord> others;
  for (RunRecord& run : waiting_) {
    (may_join(job, run) ? job : others).push_back(std::move(run));
  }
  waiting_.assign(std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
  return job;
}

JobSubmission::Submission JobSubmission::prepare(std::vector<RunRecord> runs) {
  const RunSpec& first = runs.front().spec;
  JobRecord job{.experiment = settings_.experiment,
                .token = new_token(),
                .cluster = limits_->cluster,
                .mode = std::string(name_of(first.slurm.mode)),
                .submitted_unix_ms = now_unix_ms()};
  job.folder =
      std::filesystem::path("slurm") / (file_name_of(settings_.experiment) + '-' + job.token);
  SlurmScript script{.slurm = first.slurm,
                     .request = largest_request(runs),
                     .experiment = settings_.experiment,
                     .folder = listeners_.results / job.folder,
                     .runner = settings_.runner,
                     .working_directory = settings_.plan.working_directory};
  for (const RunRecord& run : runs) {
    if (!is_allocation(run.spec)) ++script.array_tasks;
    script.keeps_checkpoints |= wants_checkpoints(run.spec);
    job.tasks.push_back(task_of(run, std::ssize(job.tasks)));
  }
  script.earlier_jobs = jobs_to_wait_for(first.slurm, script.array_tasks);
  try {
    write_folders(job, runs, render_script(template_text(first.slurm), script));
    create_output_folders(script);
    job.id = listeners_.store.record_job(job);
  } catch (const std::exception&) {
    std::error_code ignored;
    std::filesystem::remove_all(script.folder, ignored);
    throw;
  }
  return {std::move(job), std::move(runs)};
}

namespace {

// A task that is held or waits in vain would block all later jobs.
bool may_run(const JobTask& task) {
  return !task.over && !says_held(task.reason) &&
         !task.reason.starts_with("DependencyNeverSatisfied");
}

}  // namespace

// Goes through the open jobs, the newest first. Jobs that fit beside the new job may run with it.
// The new job waits for the others.
std::vector<std::string> JobSubmission::jobs_to_wait_for(const SlurmSpec& slurm,
                                                         int64_t tasks) const {
  std::vector<std::string> awaited;
  if (tasks == 0 || slurm.max_parallel == 0) return awaited;
  int64_t room = slurm.max_parallel - std::min(tasks, slurm.max_parallel);
  for (const JobRecord& job :
       listeners_.store.open_jobs(settings_.experiment) | std::views::reverse) {
    if (job.mode != name_of(SlurmMode::kPerRun) || job.slurm_job.empty() ||
        job.cluster != limits_->cluster) {
      continue;
    }
    const int64_t tasks_left = std::ranges::count_if(job.tasks, may_run);
    room -= std::min(tasks_left, slurm.max_parallel);
    if (room < 0 && tasks_left > 0) awaited.push_back(job.slurm_job);
  }
  return awaited;
}

void JobSubmission::write_folders(const JobRecord& job, std::span<const RunRecord> runs,
                                  const std::string& script) {
  JobPlan plan = settings_.plan;
  plan.mode = runs.front().spec.slurm.mode;
  plan.cluster = job.cluster;
  std::vector<JobRun> job_runs;
  for (const RunRecord& run : runs) {
    const std::filesystem::path run_folder = listeners_.results / run.folder;
    file_name_pattern(run_folder);  // refuses a folder that srun cannot write to
    write_spec(RunPaths(run_folder), run.spec);
    take_run(RunPaths(run_folder), job.folder.filename().string());
    // The store knows the attempts since the run was planned.
    FileDigests known(listeners_.store, run.spec);
    known.take(listeners_.store, plan.trainer);  // so that no task has to read it
    job_runs.push_back({.run = listeners_.store.run(run.id).value_or(run),
                        .inputs = known.all(),
                        .search = {},
                        .begins_anew = run.begins_anew});
    if (settings_.search_of && is_allocation(run.spec)) {
      job_runs.back().search = settings_.search_of(run);
    }
  }
  const std::filesystem::path folder = listeners_.results / job.folder;
  std::filesystem::create_directories(folder);
  replace_file(folder / kScriptName, script);
  write_job_plan(folder, plan, settings_.experiment_text, job_runs);
}

// Keeps `prepared_` if Slurm does not answer.
void JobSubmission::submit() {
  try {
    accept(queue_.submit(listeners_.results / prepared_->job.folder / kScriptName));
  } catch (const QueueRefused& refused) {
    if (const auto job = withdraw_submission(listeners_.results / prepared_->job.folder)) {
      accept(*job);
    } else {
      refused.later() ? put_back() : refuse(refused.what());
    }
  }
}

// Finds out whether Slurm accepted a submission that it did not answer. If it did not, the runs are
// submitted anew, with another folder.
void JobSubmission::confirm_unanswered() {
  const JobRecord& unanswered = prepared_->job;
  if (!unanswered.slurm_job.empty()) return accept(unanswered.slurm_job);  // not recorded yet
  const auto job = find_or_withdraw(queue_, listeners_.results / unanswered.folder);
  if (job) return accept(*job);
  wait_again_with_prepared();
}

void JobSubmission::accept(const std::string& slurm_job) {
  prepared_->job.slurm_job = slurm_job;
  Store::Batch batch(listeners_.store);
  listeners_.store.set_slurm_job(prepared_->job.id, slurm_job);
  for (RunRecord& run : prepared_->runs) {
    listeners_.store.record_status(run.id, RunStatus::kQueued, "");
    run.status = RunStatus::kQueued;
  }
  batch.commit();
  listeners_.progress.say(
      fmt::format("submitted job {}: {}", slurm_job, counted(std::ssize(prepared_->runs), "run")));
  submitted_.push_back(*std::exchange(prepared_, std::nullopt));
  most_tasks_ = std::min(most_tasks_ * 2, limits_ ? limits_->max_array_size : most_tasks_);
}

// Keeps the script, so that the user can see what was refused.
void JobSubmission::refuse(const std::string& problem) {
  some_refused_ = true;
  Store::Batch batch(listeners_.store);
  listeners_.store.forget_job(prepared_->job.id);
  const std::filesystem::path script = listeners_.results / prepared_->job.folder / kScriptName;
  const std::string reason = fmt::format("{}; the script: {}", problem, script.string());
  for (const RunRecord& run : prepared_->runs) {
    listeners_.store.record_status(run.id, RunStatus::kFailed, reason);
  }
  batch.commit();
  for (const RunRecord& run : prepared_->runs) {
    listeners_.progress.ended(run.id, RunStatus::kFailed, reason, {});
  }
  prepared_.reset();
}

// Halves the number of runs for the next try. A job of one run, or an allocation, waits instead.
void JobSubmission::put_back() {
  at_limit_ = prepared_->runs.size() == 1 || is_allocation(prepared_->runs.front().spec);
  most_tasks_ = std::max<int64_t>(1, std::ssize(prepared_->runs) / 2);
  std::filesystem::remove_all(listeners_.results / prepared_->job.folder);
  wait_again_with_prepared();
}

void JobSubmission::wait_again_with_prepared() {
  listeners_.store.forget_job(prepared_->job.id);
  wait_again(std::move(prepared_->runs));
  prepared_.reset();
}

}  // namespace fsdp
