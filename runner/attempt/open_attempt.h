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

// One run to start: what the store calls it and its specification.
struct RunToLaunch {
  RunRecord record;
  RunSpec spec;
};

// Where what happens to runs is told: the user and, below `results`, the database.
struct RunListeners {
  Store& store;
  Progress& progress;
  std::filesystem::path results;

  // What is to be told of a file that is not as it should be.
  WarnOfFile warn() const {
    return [&progress = progress](const std::string& line) { progress.warn(line); };
  }
};

// The steps of a run as far as they are known before it starts; 0 when only the trainer knows, from
// the training set.
int64_t known_steps(const TrainSpec& train);

void expect(Progress& progress, const RunToLaunch& run);
void show_start(Progress& progress, const RunToLaunch& run);

// An attempt that was begun and has not ended: what its ranks write into their events files goes to
// the store and to the user.
class OpenAttempt {
 public:
  OpenAttempt(const RunListeners& listeners, RunToLaunch run, int attempt);

  const RunToLaunch& run() const { return run_; }
  int attempt() const { return attempt_; }

  // Gives the store what was written since the last call. What it does not take, because it throws,
  // is given to it again.
  void ingest();
  // To the end of the files.
  void ingest_rest();
  // Says how it ended.
  void show_end(const Ending& ending);

  // The parts of ingest, for a caller whose transaction may be undone: what was given is given
  // again until it is kept.
  void give();
  void keep() { given_.clear(); }
  // To the end of the files, but that the last part is left to give().
  void ingest_all_but_last();

  // By a clock that is not set while the attempt goes on.
  int64_t now_unix_ms() const { return clock_.now_unix_ms(); }

 private:
  void tell_of_clocks();
  // What was written since, unless something is still to be taken.
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
