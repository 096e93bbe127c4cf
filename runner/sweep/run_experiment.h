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
#include "runner/store/event_files.h"
#include "runner/store/store.h"
#include "runner/sweep/stop_signals.h"
#include "trainer/contract/exit_code.h"

namespace fsdp {

// One run to start: what the store calls it and its specification.
struct RunToLaunch {
  RunRecord record;
  RunSpec spec;
};

struct SweepSettings {
  std::filesystem::path results;
  std::filesystem::path trainer;
  std::string host;  // name of this one
  Provenance provenance{};
  std::optional<std::chrono::seconds> time_limit;  // of each run
  std::string gpu_kinds{};                         // device_kinds of the GPUs that runs use
  // The run that follows one which has ended, if there is one.
  std::function<std::optional<RunToLaunch>(const RunToLaunch&, RunStatus)> follow_up{};
};

// What a run with this specification uses: the kinds of GPUs, or "cpu".
std::string device_kind(const RunSpec& spec, const std::string& gpu_kinds);

// The loop over an experiment's runs: starts each when the launcher has room, records what its
// ranks report while it runs, and how it ended. A run that fails does not end the loop; SIGINT,
// SIGTERM or SIGHUP does, keeping what was measured.
class Sweep {
 public:
  Sweep(Store& store, Launcher& launcher, Progress& progress, SweepSettings settings);

  // kOk when every run finished or did not fit, kRunFailed, or kInterrupted.
  ExitCode run(std::vector<RunToLaunch> runs);

 private:
  // Recorded as running, not yet started.
  struct Begun {
    RunToLaunch run;
    int attempt;
  };
  struct Running {
    RunToLaunch run;
    int attempt;
    EventTail tail;
  };

  LaunchRequest request(const RunToLaunch& run, int attempt) const;
  // Records what has happened and starts what there is room for.
  void turn(std::span<const LaunchResult> ended);
  std::optional<Begun> begin_next();
  void launch(Begun begun);
  void ingest(int64_t id, Running& running);
  void finish(const LaunchResult& result);
  void follow_up(const RunToLaunch& ended, RunStatus status);
  void end_attempt(const RunToLaunch& run, int attempt, RunStatus status, const std::string& reason,
                   int reason_rank);
  void stop_when_asked();

  Store& store_;
  Launcher& launcher_;
  Progress& progress_;
  SweepSettings settings_;
  StopSignals stop_signals_;
  std::deque<RunToLaunch> waiting_;
  std::map<int64_t, Running> running_;  // by the run's id
  bool stopping_ = false;
  bool some_failed_ = false;
};

}  // namespace fsdp
