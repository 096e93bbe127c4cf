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

#include "runner/launch/launcher.h"
#include "runner/progress/progress.h"
#include "runner/store/store.h"
#include "runner/sweep/open_attempt.h"
#include "runner/sweep/stop_signals.h"
#include "trainer/contract/exit_code.h"

namespace fsdp {

// The job of Slurm that a sweep works in. A runner elsewhere follows what the sweep writes into the
// attempts' folders.
struct JobOfSweep {
  std::string id;
  std::string node_list;
};

struct SweepSettings {
  std::filesystem::path results;
  std::filesystem::path trainer;
  std::string host;  // name of this one
  Provenance provenance{};
  std::optional<std::chrono::seconds> time_limit{};  // of each run
  std::function<std::string(const RunSpec&)> device_kind{};
  // The run that follows one which has ended, if there is one.
  std::function<std::optional<RunToLaunch>(const RunToLaunch&, RunStatus)> follow_up{};
  std::optional<JobOfSweep> job{};  // absent: in none
};

// What a run with this specification uses: the kinds of GPUs, or "cpu".
std::string device_kind(const RunSpec& spec, const std::string& gpu_kinds);

// The loop over an experiment's runs: starts each when the launcher has room, records what its
// ranks report while it runs, and how it ended. A run that fails does not end the loop; SIGINT,
// SIGTERM or SIGHUP does, keeping what was measured; in a job also SIGUSR1, which says that the
// job's time limit is near.
class Sweep {
 public:
  Sweep(Store& store, Launcher& launcher, Progress& progress, SweepSettings settings);

  // kOk when every run finished or did not fit, kRunFailed, or kInterrupted.
  ExitCode run(std::vector<RunToLaunch> runs);
  // Whether what is left is for the job to ask for, by a start of its own: its time limit was near,
  // or a preemption with a grace time asked its ranks to stop.
  bool is_to_go_on() const { return at_time_limit_ || ranks_were_asked_alone_; }

 private:
  // Recorded as running, not yet started.
  struct Begun {
    RunToLaunch run;
    int attempt;
  };

  LaunchRequest request(const RunToLaunch& run, int attempt) const;
  // Records what has happened and starts what there is room for.
  void turn(std::span<const LaunchResult> ended);
  std::optional<Begun> begin_next();
  int first_attempt(const RunRecord& run) const;
  void launch(Begun begun);
  void finish(LaunchResult result);
  void record_end(const OpenAttempt& attempt, const LaunchResult& result) const;
  void stop_with_job(LaunchOutcome outcome);
  void follow_up(const RunToLaunch& ended, RunStatus status);
  void end(OpenAttempt& attempt, const AttemptOutcome& outcome);
  void stop_when_asked();

  Store& store_;
  Launcher& launcher_;
  Progress& progress_;
  SweepSettings settings_;
  StopSignals stop_signals_;
  std::deque<RunToLaunch> waiting_;
  std::map<int64_t, OpenAttempt> running_;  // by the run's id
  bool stopping_ = false;
  bool at_time_limit_ = false;
  bool ranks_were_asked_alone_ = false;
  bool some_failed_ = false;
};

}  // namespace fsdp
