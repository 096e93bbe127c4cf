#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contract/record/exit_code.h"
#include "runner/attempt/open_attempt.h"
#include "runner/jobs/job_follower.h"
#include "runner/jobs/job_submission.h"
#include "runner/launch/queue.h"
#include "runner/sweep/results_patience.h"

namespace fsdp {

// Time and the user's wish to stop, so that tests wait for neither.
struct Pauses {
  std::function<std::chrono::steady_clock::time_point()> now;
  // Waits so long, less when it is asked to stop: true.
  std::function<bool(std::chrono::milliseconds)> wait;
};

// Of a command that is never asked to stop while it waits.
Pauses real_pauses();

// When to ask Slurm next: it is left alone for longer and longer while it does not answer.
class QueuePatience {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Says so when it is the first time.
  void no_answer(TimePoint now, const std::string& problem, Progress& progress);
  void answer(Progress& progress);
  TimePoint next() const { return next_; }
  // 1, 2, 4 ... 60 s
  std::chrono::seconds pause() const { return pause_; }

 private:
  std::chrono::seconds pause_{0};
  TimePoint next_{};
};

// The loop over an experiment's runs on a cluster: submits them, follows their jobs, submits what
// follows from those that have ended. The jobs go on without it.
class QueueSweep {
 public:
  struct Settings {
    std::string experiment;
    // The run that follows one which has ended, if there is one.
    std::function<std::optional<RunToLaunch>(const RunToLaunch&, RunStatus)> follow_up{};
    std::chrono::milliseconds query_interval{3000};
    // Whether the time limit is the user's, of each run, and not the jobs': nothing is repeated.
    bool has_own_time_limit = false;
  };

  QueueSweep(const RunListeners& listeners, Queue& queue, JobSubmission& submission,
             Settings settings, Pauses pauses);

  // Takes over the jobs that are open, and brings them up to date as far as Slurm answers. False:
  // asked to stop before it was known what had been submitted, and which jobs are this cluster's.
  bool pick_up();
  // Whether the run waits or runs in a job.
  bool follows(int64_t run) const { return follower_.follows(run); }
  // Whether the cluster ended the run's last attempt, and it may be started again.
  bool may_start_again(const RunToLaunch& run) const;
  // Follows a run that an open job comes to by itself (Store::allocation_that_comes_to). False:
  // there is no such job.
  bool leave_to_allocation(const RunToLaunch& run);

  // Submits the runs. False: asked to stop while Slurm did not answer; what is left stays planned.
  // Throws QueueUnavailable when it has never answered: it may not be there at all.
  bool submit(std::vector<RunToLaunch> runs);
  // Until every run has ended and nothing follows: kOk when all finished or did not fit,
  // kRunFailed, or kInterrupted. While the results cannot be written the jobs go on, and what they
  // wrote is recorded later.
  ExitCode follow();

 private:
  void pick_up_jobs(const std::string& here);
  // Whether what happened could be recorded.
  bool bring_up_to_date();
  void ask_and_submit();
  void begin_anew();
  std::optional<std::vector<TaskState>> ask();
  void settle();
  void after(const JobFollower::Ended& ended);
  bool restart(const JobFollower::Ended& ended);
  // Which restart in a row it would be of a run that ended so, at least `least`; absent: the run is
  // not started again.
  std::optional<int64_t> next_restart(const RunToLaunch& run, RunStatus status,
                                      int64_t least) const;
  // Throws QueueUnavailable.
  void push();

  RunListeners listeners_;
  Queue& queue_;
  JobSubmission& submission_;
  Settings settings_;
  Pauses pauses_;
  JobFollower follower_;
  QueuePatience patience_;
  ResultsPatience results_patience_;
  bool is_stale_ = false;                   // the follower: what it recorded last was undone
  std::deque<JobFollower::Ended> ended_{};  // recorded, and what follows is not
  QueuePatience::TimePoint next_query_{};
  QueuePatience::TimePoint next_push_{};   // when a limit was reached and no run has ended
  std::map<int64_t, int64_t> restarts_{};  // by run
  bool some_failed_ = false;
};

}  // namespace fsdp
