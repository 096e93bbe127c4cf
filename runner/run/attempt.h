#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/system/unix_time.h"
#include "runner/progress/progress.h"
#include "runner/run/attempt_files.h"
#include "runner/run/judgement.h"
#include "runner/store/event_files.h"
#include "runner/store/store.h"

namespace fsdp {

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

void expect(Progress& progress, const RunRecord& run);
void show_start(Progress& progress, const RunRecord& run);

// An attempt that has begun and not ended. It passes the events that ranks write into their files
// to the store and to the user.
class OpenAttempt {
 public:
  OpenAttempt(const RunListeners& listeners, RunRecord run, int attempt);

  const RunRecord& run() const { return run_; }
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
  RunRecord run_;
  int attempt_;
  EventTail tail_;
  std::vector<std::vector<Event>> given_{};  // by rank, as the tail gave them
  UnixClock clock_;
  bool told_of_clocks_ = false;
};

// Gives the store the rest of the attempt's events files. `warn` is told of lines that are no
// events.
void ingest_rest(Store& store, const std::filesystem::path& results, const RunRecord& run,
                 int attempt, const WarnOfFile& warn);

// Records the end of an attempt, after all its events are ingested. The end is as judged, or failed
// if its inputs changed. Inputs are compared now, unless `end` tells of that. No other function
// ends attempts. Throws ResultsUnavailable.
Ending close_attempt(Store& store, const std::filesystem::path& results, const RunRecord& run,
                     int attempt, const AttemptEnd& end);

// Checks that a run still reads the inputs that it was planned with. A file is read for this only
// if the store does not remember its state.

// Returns the file's present digest; the store remembers it. Throws ConfigError.
std::string current_digest(Store& store, const std::filesystem::path& file);

// Names the run's input files that have changed since the plan, or may have: "/data/train.npy
// changed"; nullopt: none. Changes certainly later than `ended_unix_ms`, the end of an attempt, do
// not count.
std::optional<std::string> changed_input(Store& store, const RunRecord& run,
                                         std::optional<int64_t> ended_unix_ms = std::nullopt);

}  // namespace fsdp
