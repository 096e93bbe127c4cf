#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/contract/event.h"
#include "trainer/contract/run_spec.h"

// The SQLite database of a results folder: what was planned, what ran, what every rank reported.
namespace fsdp {

enum class RunStatus {
  kPlanned, kQueued, kRunning, kFinished, kOutOfMemory, kFailed, kInterrupted,
  kTimeLimit, kPreempted, kNodeFailed, kCancelled, kUnknown,
};
constexpr auto enum_names(RunStatus) {
  return std::array{"planned"sv,     "queued"sv,     "running"sv,   "finished"sv,
                    "out_of_memory"sv, "failed"sv,   "interrupted"sv, "time_limit"sv,
                    "preempted"sv,   "node_failed"sv, "cancelled"sv, "unknown"sv};
}

struct ExperimentRecord {
  std::string name;
  std::string title;
  std::filesystem::path file;
  std::string text;     // the file as it was
  std::string profile;  // chosen one
};

struct RunRecord {
  int64_t id = 0;
  std::string experiment;
  std::string point;
  std::string hash;
  std::filesystem::path folder;  // relative to the results folder
  RunStatus status = RunStatus::kPlanned;
  std::string reason;            // one line, empty when there is nothing to say
  int attempt = 0;               // the newest, 0: none
};

// One line of the view `comparison`: one run, its newest attempt that counts. Numbers are absent
// until measured; memory is of the rank that used the most, with the least beside it.
struct ComparisonRow;  // see comparison.h

// How an attempt is known again after the runner died.
struct AttemptStart {
  int64_t runner_process_id = 0;
  int64_t started_unix_ms = 0;
  std::string host;
};

class Store {
 public:
  // Opens or creates <results>/results.sqlite and migrates its schema (PRAGMA user_version). Throws
  // std::runtime_error when it was written by a newer version or is not a database.
  explicit Store(const std::filesystem::path& results);
  ~Store();

  // Records the experiment and its runs in their order in one transaction; runs that are there
  // (same experiment, point and hash) keep what was recorded. Points of the experiment that are not
  // among `runs` stay in the database and leave the experiment's current list.
  struct PlannedRun { std::string point; RunSpec spec; std::string hash; std::filesystem::path folder; };
  std::vector<RunRecord> plan(const ExperimentRecord& experiment, std::span<const PlannedRun> runs);

  // A new attempt, status running; its number starts at 1.
  int begin_attempt(int64_t run_id, const AttemptStart& start);
  // Adds what a rank reported; idempotent on (run, attempt, rank, sequence).
  void ingest(int64_t run_id, int attempt, int rank, std::span<const Event> events);
  void end_attempt(int64_t run_id, int attempt, RunStatus status, std::string_view reason,
                   int64_t ended_unix_ms);

  // A remembered digest, valid while size and modification time are the same.
  std::optional<std::string> digest(const std::filesystem::path& file) const;
  void remember_digest(const std::filesystem::path& file, std::string_view digest);

 private:
  struct Database;
  std::unique_ptr<Database> database_;
};

}  // namespace fsdp
