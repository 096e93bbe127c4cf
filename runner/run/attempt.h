#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file_digest.h"
#include "base/system/unix_time.h"
#include "runner/progress/progress.h"
#include "runner/run/attempt_files.h"
#include "runner/run/judgement.h"
#include "runner/store/attempt_reports.h"
#include "runner/store/event_files.h"
#include "runner/store/store.h"

namespace fsdp {

// The receivers of a run's events, and the results folder with the events files.
struct RunListeners {
  Store& store;
  Progress& progress;
  std::filesystem::path results;

  // Returns a function that shows the user a warning about a file.
  WarnOfFile warn() const {
    return [&progress = progress](const std::string& line) { progress.warn(line); };
  }
};

void expect(Progress& progress, const RunRecord& run);
void show_start(Progress& progress, const RunRecord& run);

// An attempt that has begun and not ended. It shows the user the events that ranks write into their
// files.
class OpenAttempt {
 public:
  // `started_unix_ms` is a time before the first rank's start, by this host's clock or the clock of
  // the attempt's host.
  OpenAttempt(Progress& progress, const std::filesystem::path& results, RunRecord run, int attempt,
              int64_t started_unix_ms);

  const RunRecord& run() const { return run_; }
  int attempt() const { return attempt_; }

  // Returns each rank's events since the last call, a bounded part at a time.
  std::vector<std::vector<Event>> read();
  // True if the last read() came to the end of the files.
  bool at_end() const { return tail_.at_end(); }
  // What the ranks reported, as far as events were read.
  const AttemptReports& reports() const { return reports_; }
  void show_end(const Verdict& verdict);

  // Returns the time by a clock that does not change if somebody sets the system's clock.
  int64_t now_unix_ms() const { return clock_.now_unix_ms(); }

 private:
  void warn_of_clocks(std::span<const std::vector<Event>> events_of_ranks);

  Progress& progress_;
  RunPaths paths_;
  RunRecord run_;
  int attempt_;
  int64_t started_unix_ms_;
  EventTail tail_;
  AttemptReports reports_;
  UnixClock clock_;
  bool warned_of_clocks_ = false;
};

// The digest of a file, and the file's state when the digest was computed.
struct KnownFile {
  FileState state;
  std::string digest;

  bool operator==(const KnownFile&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    FileState::visit_fields(self.state, visit);
    visit("digest", self.digest);
  }
};

// The remembered digests of files.
class FileDigests {
 public:
  FileDigests() = default;
  // Adds the digests of the run's input files that the store remembers.
  FileDigests(const Store& store, const RunSpec& spec) { take(store, spec); }
  void take(const Store& store, const RunSpec& spec);
  void take(const Store& store, const std::filesystem::path& file);

  void add(const KnownFile& file);
  const std::vector<KnownFile>& all() const { return known_; }
  // Returns the digests of all remembered states of a canonical path.
  std::vector<std::string> of_path(const std::string& path) const;
  // Returns the file's present digest, and remembers it. Throws ConfigError.
  std::string current(const std::filesystem::path& file);
  // The digests that were computed here.
  const std::vector<KnownFile>& computed() const { return computed_; }

 private:
  std::vector<KnownFile> known_;
  std::vector<KnownFile> computed_;
};

// Names the run's input files that have changed, or may have changed, since the run was planned:
// "/data/train.npy changed"; nullopt: none. Changes that are certainly later than `ended_unix_ms`,
// the end of an attempt, do not count. A file is read only if its state is not remembered.
std::optional<std::string> changed_input(FileDigests& digests, const RunRecord& run,
                                         std::optional<int64_t> ended_unix_ms = std::nullopt);

// Returns what judge() returns, unless the inputs changed: then the attempt failed. Compares the
// inputs, unless end.inputs_compared is set. If inputs changed, sets the checkpoints aside. Fills
// in the rest of `end`. Throws ResultsUnavailable; a later call continues.
Verdict judge_and_check_inputs(const std::filesystem::path& results, const RunRecord& run,
                               int attempt, std::span<const RankState> ranks, FileDigests& digests,
                               AttemptEnd& end);

// Does the same, and records the verdict and the digests in the store. Throws ResultsUnavailable.
Verdict close_attempt(Store& store, const std::filesystem::path& results, const RunRecord& run,
                      int attempt, std::span<const RankState> ranks, AttemptEnd end);

}  // namespace fsdp
