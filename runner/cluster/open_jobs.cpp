#include "runner/cluster/open_jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/system/program.h"
#include "base/system/unix_time.h"
#include "base/text/config_error.h"
#include "runner/cluster/job_follower.h"
#include "runner/cluster/job_plan.h"
#include "runner/cluster/job_submission.h"
#include "runner/cluster/script.h"
#include "runner/run/earlier_attempts.h"
#include "runner/run/locks.h"

namespace fsdp {
namespace {

std::map<int64_t, RunRecord> runs_by_id(const Store& store) {
  std::map<int64_t, RunRecord> runs;
  for (RunRecord& run : store.runs()) runs.emplace(run.id, std::move(run));
  return runs;
}

}  // namespace

bool is_of_cluster(const JobRecord& job, std::string_view here) {
  return job.cluster.empty() || job.cluster == here;
}

std::set<std::string> other_clusters(const Store& store, std::string_view here,
                                     std::string_view experiment) {
  std::set<std::string> clusters;
  for (const JobRecord& job : store.open_jobs(experiment)) {
    if (!is_of_cluster(job, here)) clusters.insert(job.cluster);
  }
  return clusters;
}

std::string left_alone(const std::set<std::string>& clusters) {
  return fmt::format(
      "jobs on another cluster ({}) are left alone: call fsdp-run on a login node of that cluster",
      fmt::join(clusters, ", "));
}

namespace {

std::string user_name(uid_t user) {
  const passwd* known = getpwuid(user);
  return known != nullptr ? known->pw_name : fmt::format("user {}", user);
}

// Slurm may hide the job of another user. That job does nothing if it starts after the withdrawal.
std::optional<std::string> find_or_withdraw_of_any_user(Queue& queue,
                                                        const std::filesystem::path& folder) {
  try {
    return find_or_withdraw(queue, folder);
  } catch (const std::system_error& error) {
    const uid_t owner = submitter_of(folder);
    if (owner == geteuid() || error.code() != std::errc::permission_denied) throw;
    throw std::runtime_error(fmt::format(
        "{} submitted runs, and sbatch gave no answer: {}; ask this user to call fsdp-run status, "
        "or to let you write there (for a group: chmod g+w on the folder)",
        user_name(owner), error.what()));
  }
}

}  // namespace

void confirm_submissions(const RunListeners& listeners, Queue& queue, std::string_view experiment,
                         bool is_to_submit) {
  for (const JobRecord& job : listeners.store.open_jobs(experiment)) {
    if (!job.slurm_job.empty() || !is_of_cluster(job, queue.limits().cluster)) continue;
    const std::filesystem::path folder = listeners.results / job.folder;
    const bool may_withdraw = is_to_submit || submitter_of(folder) == geteuid();
    const auto found =
        may_withdraw ? find_or_withdraw_of_any_user(queue, folder) : job_of_submission(folder);
    if (found) {
      Store::Batch batch(listeners.store);
      listeners.store.set_slurm_job(job.id, *found);
      for (const JobTask& task : job.tasks) {
        listeners.store.record_status(task.run, RunStatus::kQueued, "");
      }
      batch.commit();
    } else if (may_withdraw) {
      listeners.store.forget_job(job.id);
    }
  }
}

namespace {

// Gives attempts with the status unknown the status running again, if their ranks have written more
// events since.
void reopen_unknown(Store& store, std::string_view experiment) {
  for (const RunRecord& run : store.runs()) {
    const bool is_own = run.experiment == experiment && run.source.empty();
    if (!is_own || run.status != RunStatus::kUnknown || run.attempt == 0) continue;
    if (store.attempts(run.id).back().status != RunStatus::kUnknown) continue;
    if (store.read_late_events(run.id, run.attempt)) store.reopen_attempt(run.id, run.attempt);
  }
}

// Returns the job that began the attempt: an open one, else the newest. Slurm's numbers may begin
// anew, and clusters have the same ones.
std::optional<JobRecord> job_of_attempt(const Store& store, int64_t run,
                                        const AttemptStart& start) {
  std::optional<JobRecord> found;
  for (JobRecord& job : store.jobs_of_run(run)) {
    if (slurm_name(job, job.tasks.front().task) != start.slurm_job) continue;
    if (!job.tasks.front().over) return std::move(job);
    found = std::move(job);
  }
  return found;
}

}  // namespace

void reopen_tasks(Store& store, std::string_view experiment) {
  reopen_unknown(store, experiment);
  for (const auto& [run, attempt, ranks, start] : store.running_attempts(experiment)) {
    if (start.slurm_job.empty()) continue;
    const auto job = job_of_attempt(store, run.id, start);
    if (!job) continue;
    JobTask task = job->tasks.front();
    task.over = false;
    store.update_task(job->id, task);
  }
}

void follow_open_jobs(JobFollower& follower, const RunListeners& listeners,
                      const std::optional<std::string>& here, std::string_view experiment,
                      std::optional<int64_t> left_out) {
  const std::vector<JobRecord> jobs = listeners.store.open_jobs(experiment);
  if (jobs.empty()) return;
  const std::map<int64_t, RunRecord> records = runs_by_id(listeners.store);
  for (const JobRecord& job : jobs) {
    if (job.id == left_out) continue;
    std::vector<RunRecord> runs;
    for (const JobTask& task : job.tasks) {
      if (task.over) continue;
      runs.push_back(records.at(task.run));
    }
    const bool can_be_asked = here && is_of_cluster(job, *here) && !job.slurm_job.empty();
    follower.follow(job, runs, can_be_asked);
  }
}

std::set<std::string> experiments_in_jobs(const Store& store) {
  std::set<std::string> experiments;
  for (const JobRecord& job : store.open_jobs("")) experiments.insert(job.experiment);
  for (const RunRecord& run : store.runs()) {
    const bool may_go_on = run.status == RunStatus::kUnknown && run.attempt > 0;
    if (may_go_on && run.source.empty()) experiments.insert(run.experiment);
  }
  return experiments;
}

std::set<int64_t> runs_in_jobs(const Store& store) {
  std::set<int64_t> runs;
  for (const JobRecord& job : store.open_jobs("")) {
    for (const JobTask& task : job.tasks) {
      if (!task.over) runs.insert(task.run);
    }
  }
  return runs;
}

std::set<std::string> families_in_jobs(const Store& store, std::string_view experiment) {
  const std::set<int64_t> in_jobs = runs_in_jobs(store);
  std::set<std::string> families;
  for (const RunRecord& run : store.runs()) {
    if (run.experiment == experiment && in_jobs.contains(run.id)) families.insert(run.family);
  }
  families.erase("");
  return families;
}

namespace {

constexpr std::chrono::milliseconds kFilesPause{1000};

// Shows nothing: the command that refreshes the jobs shows their state afterwards.
class SilentProgress : public Progress {
 public:
  void say(std::string_view) override {}
  void warn(std::string_view) override {}

 private:
  void show(const RunProgress&) override {}
  void update(ProgressClock::time_point) override {}
};

}  // namespace

bool refresh_jobs(const RunListeners& listeners, Queue* queue, std::string_view experiment,
                  const Pauses& pauses) {
  JobFollower follower(listeners, pauses.now);
  std::optional<std::vector<TaskState>> states;
  std::optional<std::string> here;
  try {
    if (queue != nullptr) {
      confirm_submissions(listeners, *queue, experiment, /*is_to_submit=*/false);
      reopen_tasks(listeners.store, experiment);
      here = queue->limits().cluster;
      follow_open_jobs(follower, listeners, here, experiment);
      states = queue->query(follower.tasks());
    }
  } catch (const QueueUnavailable&) {
  }
  if (!here) follow_open_jobs(follower, listeners, here, experiment);
  follower.pass(states);
  while (follower.waits_for_files() && !pauses.wait(kFilesPause)) follower.pass(states);
  return queue == nullptr || states.has_value();
}

std::set<std::string> refresh_free_jobs(Store& store, const std::filesystem::path& results,
                                        const std::set<std::string>& experiments, Queue* queue,
                                        const Pauses& pauses) {
  std::set<std::string> not_asked;
  SilentProgress progress;
  for (const std::string& experiment : experiments) {
    const auto lock = ExperimentLock::for_a_moment(results, experiment);
    if (!lock) continue;  // the process that has the lock follows the jobs
    const RunListeners listeners{store, progress, std::filesystem::absolute(results)};
    if (!refresh_jobs(listeners, queue, experiment, pauses)) not_asked.insert(experiment);
  }
  return not_asked;
}

JobsToCancel jobs_to_cancel(const Store& store, const std::set<int64_t>& runs,
                            std::string_view here) {
  const std::map<int64_t, RunRecord> records = runs_by_id(store);
  JobsToCancel found;
  for (const JobRecord& job : store.open_jobs("")) {
    if (job.slurm_job.empty()) continue;
    size_t open = 0;
    std::vector<JobsToCancel::Task> tasks;
    for (const JobTask& task : job.tasks) {
      const RunRecord& run = records.at(task.run);
      // In an allocation, the task of an ended run stays open until the job is over.
      if (task.over || !is_under_way(run.status)) continue;
      ++open;
      if (runs.contains(task.run)) tasks.push_back({slurm_name(job, task.task), run});
    }
    if (tasks.empty()) continue;
    if (!is_of_cluster(job, here)) {
      found.other_clusters.insert(job.cluster);
      continue;
    }
    const bool whole = tasks.size() == open;
    if (!whole && job.mode == "allocation") {
      throw ConfigError("cancel", "",
                        fmt::format("'{0}' is in job {1} with other runs of '{2}', which would end "
                                    "too; to end them all: fsdp-run cancel {3}",
                                    tasks.front().run.point, job.slurm_job, job.experiment,
                                    shell_quoted(job.experiment)));
    }
    if (whole) found.names.push_back(job.slurm_job);
    for (JobsToCancel::Task& task : tasks) {
      if (!whole) found.names.push_back(task.name);
      found.tasks.push_back(std::move(task));
    }
  }
  return found;
}

}  // namespace fsdp
