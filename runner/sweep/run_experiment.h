#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contract/plan/run_plan.h"
#include "contract/record/exit_code.h"
#include "contract/record/log.h"
#include "runner/attempt/open_attempt.h"
#include "runner/attempt/records.h"
#include "runner/launch/launcher.h"
#include "runner/progress/progress.h"
#include "runner/store/store.h"
#include "runner/sweep/results_patience.h"
#include "runner/sweep/stop_signals.h"

namespace fsdp {

// The job of Slurm that a sweep works in. A runner elsewhere follows what the sweep writes into the
// attempts' folders.
struct JobOfSweep {
  std::string id;
  std::string node_list;
};

// What a run will take; absent: nobody can say.
using PredictRun = std::function<std::optional<RunPlan>(const RunSpec&)>;

struct SweepSettings {
  std::filesystem::path results;
  std::filesystem::path trainer;
  LogLevel log_level = LogLevel::kInfo;  // of the ranks
  std::string host;                      // name of this one
  Provenance provenance{};
  std::optional<std::chrono::seconds> time_limit{};  // of each run
  std::function<std::string(const RunSpec&)> device_kind{};
  PredictRun predict{};  // what is stored with an attempt before it begins; empty: nothing
  // The run that follows one which has ended, if there is one.
  std::function<std::optional<RunToLaunch>(const RunToLaunch&, RunStatus)> follow_up{};
  std::optional<JobOfSweep> job{};  // absent: in none
};

// The loop over an experiment's runs: starts each when the launcher has room, records what its
// ranks report while it runs, and how it ended. A run that fails does not end the loop; a signal
// that asks to stop does, keeping what was measured; in a job SIGUSR1 says that the job's time
// limit is near. Nor does a results folder that cannot be written: runs under way go on, none is
// begun, and what happened is recorded when that is possible again.
class Sweep {
 public:
  Sweep(Store& store, Launcher& launcher, Progress& progress, SweepSettings settings);

  // kOk when every run finished or did not fit, kRunFailed, or kInterrupted. Throws GaveUp when
  // what happened could not be recorded.
  ExitCode run(std::vector<RunToLaunch> runs);
  // Whether something is left for which the job is to ask for a start of its own: its time limit
  // was near, or a preemption with a grace time asked its ranks to stop.
  bool is_to_go_on() const {
    return (at_time_limit_ || ranks_were_asked_alone_) && (some_cut_short_ || !waiting_.empty());
  }

 private:
  // Recorded as running, not yet started.
  struct Begun {
    RunToLaunch run;
    int attempt;
  };
  // A launch that is over, or never came about, which is not recorded yet.
  struct Ended {
    int64_t run;
    EndRecord end;
    bool was_started = true;
  };
  // Recorded as ended.
  struct Closed {
    int64_t run;
    Ending ending;
    std::optional<RunToLaunch> next;  // the run that follows
  };

  LaunchRequest request(const RunToLaunch& run, int attempt) const;
  // Records what has happened and starts what there is room for.
  void record_and_launch();
  // One transaction where runs have ended. What is in memory follows when it is kept.
  void record();
  void look_at_inputs(Ended& ended);
  Closed close(const Ended& ended);
  void conclude(Closed closed);
  const RunToLaunch* next_run(std::span<const Closed> closed) const;
  int begin(const RunToLaunch& run);
  RunToLaunch take_waiting(int64_t id);
  int claim(const RunRecord& run);
  void launch();
  void prepare_folder(const Begun& begun) const;
  // Why it cannot be started, if so. Throws what may pass.
  std::optional<std::string> start(const Begun& begun);
  void open(Begun begun);
  void note_ended(std::vector<LaunchResult> results);
  void wait_without_runs();
  void write_end(const OpenAttempt& attempt, const Ended& ended) const;
  void leave_ends_in_files() const;
  void stop_with_job(LaunchOutcome outcome);
  void stop_when_asked(std::chrono::milliseconds patience = {});
  bool runs_are_under_way() const { return running_.size() > ended_.size(); }

  Store& store_;
  Launcher& launcher_;
  Progress& progress_;
  SweepSettings settings_;
  StopSignals stop_signals_;
  ResultsPatience patience_;
  std::deque<RunToLaunch> waiting_;
  std::optional<Begun> begun_;
  std::map<int64_t, OpenAttempt> running_;  // by the run's id, until their ends are recorded
  std::vector<Ended> ended_;
  // Of runs under way: their input files before they were started.
  std::map<int64_t, int> claimed_{};  // attempts with a folder that are not begun; by run
  bool stopping_ = false;
  bool user_waits_ = true;  // for what is left to be recorded when all runs have ended
  bool at_time_limit_ = false;
  bool ranks_were_asked_alone_ = false;
  bool some_failed_ = false;
  bool some_cut_short_ = false;
};

}  // namespace fsdp
