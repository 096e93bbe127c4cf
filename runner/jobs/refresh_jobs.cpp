#include "runner/jobs/refresh_jobs.h"

#include <memory>

#include "runner/jobs/job_follower.h"
#include "runner/jobs/open_jobs.h"
#include "runner/sweep/experiment_lock.h"

namespace fsdp {
namespace {

constexpr std::chrono::milliseconds kFilesPause{1000};

// Shows nothing: the report tells the user.
class SilentProgress : public Progress {
 public:
  void say(std::string_view) override {}
  void warn(std::string_view) override {}

 private:
  void show(const RunProgress&) override {}
  void update(ProgressClock::time_point) override {}
};

}  // namespace

bool refresh_jobs(const RunListeners& listeners, Queue& queue, std::string_view experiment,
                  const Pauses& pauses) {
  JobFollower follower(listeners, pauses.now);
  std::optional<std::vector<TaskState>> states;
  std::optional<std::string> here;
  try {
    confirm_submissions(listeners, queue, experiment);
    here = queue.limits().cluster;
    follow_open_jobs(follower, listeners, here, experiment);
    const std::vector<std::string> tasks = follower.tasks();
    states = tasks.empty() ? std::vector<TaskState>() : queue.query(tasks);
  } catch (const QueueUnavailable&) {
    if (!here) follow_open_jobs(follower, listeners, here, experiment);
  }
  follower.pass(states);
  while (follower.waits_for_files() && !pauses.wait(kFilesPause)) follower.pass(states);
  return states.has_value();
}

std::set<std::string> refresh_free_jobs(Store& store, const std::filesystem::path& results,
                                        Queue& queue, const Pauses& pauses) {
  std::set<std::string> experiments;
  for (const JobRecord& job : store.open_jobs("")) experiments.insert(job.experiment);
  std::set<std::string> not_asked;
  SilentProgress progress;
  for (const std::string& experiment : experiments) {
    const auto lock = ExperimentLock::for_a_moment(results, experiment);
    if (!lock) continue;  // whoever has it follows the jobs
    const RunListeners listeners{store, progress, std::filesystem::absolute(results)};
    if (!refresh_jobs(listeners, queue, experiment, pauses)) not_asked.insert(experiment);
  }
  return not_asked;
}

}  // namespace fsdp
