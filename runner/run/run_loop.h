#pragma once

#include <signal.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/system/log.h"
#include "contract/plan/run_plan.h"
#include "contract/record/exit_code.h"
#include "runner/progress/progress.h"
#include "runner/run/attempt.h"
#include "runner/run/earlier_attempts.h"
#include "runner/run/launcher.h"
#include "runner/store/store.h"

namespace fsdp {

// Blocks the signals by which users and batch systems ask to stop, so the program takes them at
// points of its choosing. Signals that this process ignores, as under nohup, stay ignored. After an
// error the signals stay blocked while the program reports the error and ends.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Returns a signal that has arrived or arrives within `patience`. Returns 0 if there is none.
  int take(std::chrono::milliseconds patience = {});

 private:
  sigset_t signals_;
  sigset_t previous_mask_;
};

// Retries records that fail for a reason that may pass (may_pass), and tells the user why. Retries
// continue as long as runs are under way, because their events stay in files.
class ResultsPatience {
 public:
  // `store` is null in a job, which has files only.
  ResultsPatience(Store* store, Progress& progress) : store_(store), progress_(progress) {}

  // Returns true if `record` succeeded. Waits only briefly for locks, because signals and ends of
  // runs need attention. Rethrows errors that will not pass.
  bool attempt(const std::function<void()>& record);
  // Call this if attempt() failed and no run is under way. Throws std::runtime_error after 10
  // minutes, or at once if the user does not want to wait.
  void wait_without_runs(bool user_waits);
  void runs_are_under_way() { gives_up_at_.reset(); }

 private:
  using Clock = std::chrono::steady_clock;

  Store* store_;
  Progress& progress_;
  std::string cause_{};  // why the last record failed; empty: it succeeded
  Clock::time_point reminds_at_{};
  bool has_reminded_ = false;
  std::optional<Clock::time_point> gives_up_at_{};
};

// Predicts the memory and time of a run. nullopt if they are unknown.
using PredictRun = std::function<std::optional<RunPlan>(const RunSpec&)>;

struct LoopSettings {
  std::filesystem::path results;
  std::filesystem::path trainer;
  LogLevel log_level = LogLevel::kInfo;  // of the ranks
  std::string host;                      // this host's name
  Provenance provenance{};
  std::optional<std::chrono::seconds> time_limit{};  // per run
  std::function<std::string(const RunSpec&)> device_kind{};
  PredictRun predict{};            // the prediction stored with an attempt; empty: none
  FollowUp follow_up{};            // empty: no run follows. If it throws, it is called again
  std::optional<JobOfLoop> job{};  // absent: not in a job
  std::string owner{};             // the submission of the job; empty: not in a job
};

// The loop over an experiment's runs. Starts each run when the launcher has room. Keeps each
// attempt in files: launch.json begins an attempt, ranks append their events, end.json ends it, and
// verdict.json says how it ended. If a job was asked to stop, only Slurm knows why: the job's next
// start, or who follows the job, writes verdict.json. A failed run does not end the loop. A stop
// signal ends it, and measurements are kept. In a job, SIGUSR1 means that the job's time limit is
// near. While files cannot be written, runs under way continue and no run begins. The index follows
// the files once a second, if it can be written.
class RunLoop {
 public:
  // `index` is the index of the results; null: a job writes files only.
  RunLoop(Launcher& launcher, Progress& progress, FileDigests& digests, Store* index,
          LoopSettings settings);

  // Returns kInterrupted if the loop was stopped, kOk if every run finished or did not fit, else
  // kRunFailed. Throws std::runtime_error if files could not be written for too long.
  ExitCode run(std::vector<RunRecord> runs);
  // True if runs are left and the job should ask Slurm for another start. In this case the job's
  // time limit was near, or a preemption with a grace time asked its ranks to stop.
  bool needs_another_start() const {
    return (at_time_limit_ || ranks_were_asked_alone_) && (some_cut_short_ || !waiting_.empty());
  }

 private:
  LaunchRequest request(const RunRecord& run, int attempt) const;
  AttemptStart start_of(const RunRecord& run) const;
  // Ends attempts, and starts the runs that have room.
  void pass();
  // Brings the index up to date, unless that was tried less than a second ago.
  void update_index();
  void end_attempts();
  void add_followers();
  // True unless slurm.max_restarts forbids another start of the job for this run.
  bool may_start_again(const OpenAttempt& attempt) const;
  // Returns false if no run can begin.
  bool begin_next();
  // Begins an attempt, and returns its number. If the run cannot start, sets `problem`. Throws
  // errors that may pass (may_pass); then no attempt has begun.
  int begin(const RunRecord& run, const AttemptStart& start, std::string& problem);
  void note_ended(std::vector<AttemptEnd> ends);
  void wait_without_runs();
  void stop_with_job(LaunchOutcome outcome);
  void stop_when_asked(std::chrono::milliseconds patience = {});
  bool runs_are_under_way() const { return running_.size() > ended_.size(); }

  Launcher& launcher_;
  Progress& progress_;
  FileDigests& digests_;
  Store* index_;
  LoopSettings settings_;
  StopSignals stop_signals_;
  ResultsPatience patience_;
  std::set<std::filesystem::path> changed_{};  // folders of runs that the index may lack
  std::chrono::steady_clock::time_point next_update_{};
  int failed_updates_ = 0;  // in a row
  std::deque<RunRecord> waiting_;
  std::map<int64_t, OpenAttempt> running_;  // by the run's id, until their ends are in files
  std::vector<AttemptEnd> ended_;           // not in files yet
  std::deque<RunRecord> judged_;            // not followed up yet
  bool stopping_ = false;
  bool user_waits_ = true;  // until everything is recorded
  bool at_time_limit_ = false;
  bool ranks_were_asked_alone_ = false;
  bool some_failed_ = false;
  bool some_cut_short_ = false;
};

}  // namespace fsdp
