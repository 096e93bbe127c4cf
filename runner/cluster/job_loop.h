#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/record/exit_code.h"
#include "runner/cluster/job_follower.h"
#include "runner/cluster/job_submission.h"
#include "runner/cluster/queue.h"
#include "runner/run/attempt.h"
#include "runner/run/run_loop.h"

namespace fsdp {

// The clock and the wait for the user, which tests replace.
struct Pauses {
  std::function<std::chrono::steady_clock::time_point()> now;
  // Waits this long. If the user asks to stop, returns true at once.
  std::function<bool(std::chrono::milliseconds)> wait;
};

// Pauses for a command that is never asked to stop while it waits.
Pauses real_pauses();

// Decides when to query Slurm next. Pauses grow while Slurm does not answer.
class QueuePatience {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Warns the user the first time.
  void no_answer(TimePoint now, const std::string& problem, Progress& progress);
  // The time since the first call without an answer; 0: the last call was answered.
  std::chrono::seconds lasted(TimePoint now) const;
  void answer(Progress& progress);
  TimePoint next() const { return next_; }
  // 1, 2, 4 ... 60 s
  std::chrono::seconds pause() const { return pause_; }

 private:
  std::chrono::seconds pause_{0};
  TimePoint next_{};
  TimePoint since_{};  // the first call without an answer
};

// Runs an experiment on a cluster: submits runs, follows their jobs, and submits follow-up runs.
// The jobs continue without it.
class JobLoop {
 public:
  struct Settings {
    std::string experiment;
    // Returns the run that follows an ended run, if any.
    std::function<std::optional<RunRecord>(const RunRecord&, RunStatus)> follow_up{};
    // The shortest pause between two queries. It doubles up to 20 times as long while no task
    // changes.
    std::chrono::milliseconds query_interval{3000};
    // The time without an answer from Slurm after which submitting is given up.
    std::chrono::seconds patience{600};
    // True if the user set a time limit per run. A run that exceeds it is not restarted.
    bool has_own_time_limit = false;
  };

  JobLoop(const RunListeners& listeners, Queue& queue, JobSubmission& submission, Settings settings,
          Pauses pauses);

  // Follows the open jobs and brings them up to date as far as Slurm answers. Returns false if
  // asked to stop before Slurm said what was submitted and which cluster this is.
  bool pick_up();
  // True if the cluster ended the run's last attempt and the run may start again.
  bool may_start_again(const RunRecord& run) const;
  // True if the run waits or runs in a job.
  bool follows(int64_t run) const { return follower_.follows(run); }
  // Leaves a run to a job with another run of its family, which may choose it. If the job does not
  // begin the run, follow() submits it. Returns false if there is no such job.
  bool leave_to_job(const RunRecord& run);

  // Submits the runs. Returns false if asked to stop while Slurm did not answer; the rest stays
  // planned. Throws QueueUnavailable if Slurm has never answered, because there may be no Slurm.
  // Also throws it after Settings::patience without an answer.
  bool submit(std::vector<RunRecord> runs);
  // Follows until every run has ended and nothing follows. Returns kInterrupted if asked to stop,
  // kOk if all runs finished or did not fit, else kRunFailed. While the results cannot be written,
  // the jobs continue and are recorded later.
  ExitCode follow();

 private:
  void pick_up_jobs(const std::string& here);
  // True if the news could be recorded.
  bool bring_up_to_date();
  void ask_and_submit();
  void follow_open_jobs_again();
  void query_soon();
  std::optional<std::vector<TaskState>> ask();
  // Slows queries down while nothing changes.
  void note_changes(std::vector<TaskState> states);
  void follow_up_on_ended();
  void after(const RunRecord& ended);
  // True if the job that attempted `ended` last has attempted the other run, too.
  bool are_of_one_job(const RunRecord& ended, const RunRecord& other) const;
  void submit_runs_left();
  bool restart(const RunRecord& ended);
  // Returns the number of the next restart in a row, at least `least`. `without_attempt` restarts
  // began no attempt. Returns nullopt if the run is not started again.
  std::optional<int64_t> next_restart(const RunRecord& run, int64_t without_attempt,
                                      int64_t least) const;
  // Throws QueueUnavailable.
  void push();
  void give_up_submitting(const std::string& problem) const;

  RunListeners listeners_;
  Queue& queue_;
  JobSubmission& submission_;
  Settings settings_;
  Pauses pauses_;
  JobFollower follower_;
  QueuePatience patience_;
  QueuePatience submission_patience_;  // sbatch may fail while squeue answers
  ResultsPatience results_patience_;
  bool is_stale_ = false;          // the follower holds changes that the store has undone
  std::deque<RunRecord> ended_{};  // recorded, but not followed up yet
  QueuePatience::TimePoint next_query_{};
  std::chrono::milliseconds query_pause_{settings_.query_interval};
  std::vector<TaskState> last_states_{};
  QueuePatience::TimePoint next_push_{};  // if a limit was reached and no run has ended
  // The newest attempt of a run, and the restarts since it began. By run.
  std::map<int64_t, std::pair<int, int64_t>> restarts_{};
  std::vector<RunRecord> left_to_jobs_{};  // of families that are in jobs
  bool some_failed_ = false;
};

}  // namespace fsdp
