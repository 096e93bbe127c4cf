#pragma once

#include <filesystem>
#include <vector>

#include "contract/record/unix_time.h"
#include "contract/spec/run_spec.h"
#include "runner/attempt/records.h"
#include "runner/attempt/said_by_ranks.h"
#include "runner/progress/progress.h"
#include "runner/store/event_files.h"
#include "runner/store/store.h"

namespace fsdp {

// A run to start: its record in the store and its specification.
struct RunToLaunch {
  RunRecord record;
  RunSpec spec;
};

// The receivers of a run's events: the user and, below `results`, the database.
struct RunListeners {
  Store& store;
  Progress& progress;
  std::filesystem::path results;

  // Returns a function that shows the user a warning about a file.
  WarnOfFile warn() const {
    return [&progress = progress](const std::string& line) { progress.warn(line); };
  }
};

// Returns the run's steps, as far as they are known before it starts. Returns 0 if only the trainer
// knows them, from the training set.
int64_t known_steps(const TrainSpec& train);

void expect(Progress& progress, const RunToLaunch& run);
void show_start(Progress& progress, const RunToLaunch& run);

// An attempt that has begun and not ended. It passes the events that ranks write into their files
// to the store and to the user.
class OpenAttempt {
 public:
  OpenAttempt(const RunListeners& listeners, RunToLaunch run, int attempt);

  const RunToLaunch& run() const { return run_; }
  int attempt() const { return attempt_; }

  // Gives the store the events written since the last call. If storing throws, the next call gives
  // the same events again.
  void ingest();
  // Ingests up to the end of the files.
  void ingest_rest();
  void show_end(const Ending& ending);

  // The parts of ingest(), for a caller that may undo its transaction. give() gives the same events
  // again until keep() is called.
  void give();
  void keep() { given_.clear(); }
  // Ingests up to the end of the files, except the last part, which is left to give().
  void ingest_all_but_last();

  // Returns the time by a clock that nobody sets during the attempt.
  int64_t now_unix_ms() const { return clock_.now_unix_ms(); }

 private:
  void tell_of_clocks();
  // Reads the newly written events, unless earlier ones are not kept yet.
  void read();

  RunListeners listeners_;
  RunToLaunch run_;
  int attempt_;
  EventTail tail_;
  std::vector<std::vector<Event>> given_{};  // by rank, as the tail gave them
  UnixClock clock_;
  bool told_of_clocks_ = false;
};

}  // namespace fsdp
