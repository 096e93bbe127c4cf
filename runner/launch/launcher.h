#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/text/fields.h"

// Launcher: starts a run's ranks somewhere and says how they ended. Knows no store and no report.
namespace fsdp {

// One attempt at one run.
struct LaunchRequest {
  int64_t id = 0;                                  // the caller's; comes back in LaunchResult
  std::filesystem::path trainer{};                 // the program
  std::vector<std::string> arguments{};            // --spec .../run.yaml --attempt N
  std::vector<std::string> environment{};          // NAME=value, over this process's own
  std::vector<std::filesystem::path> rank_logs{};  // stdout and stderr of rank r; one per rank
  bool uses_gpus = false;  // one GPU slot per rank, else one CPU-rank slot per rank
  std::optional<std::chrono::seconds> time_limit{};
  // How long ranks may take to end when they are asked to stop, none of them having failed; absent:
  // the launcher's own patience.
  std::optional<std::chrono::seconds> time_to_stop{};
};

// The last: a node went away under its ranks, and with it the job that they are part of.
enum class LaunchOutcome { kExited, kOutOfMemory, kFailed, kTimeLimit, kInterrupted, kNodeFailed };
constexpr auto enum_names(LaunchOutcome) {
  return std::array{"exited"sv,     "out_of_memory"sv, "failed"sv,
                    "time_limit"sv, "interrupted"sv,   "node_failed"sv};
}

struct LaunchResult {
  int64_t id = 0;
  LaunchOutcome outcome = LaunchOutcome::kExited;
  // Empty when kExited; else one line about the first rank that ended badly:
  // "rank 2 killed by signal 9", "rank 0 exited with status 4".
  std::string reason{};
  int first_rank = -1;  // the rank `reason` is about; -1: none
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Whether a launch of so many ranks could start now beside what is running.
  virtual bool has_room(size_t ranks, bool uses_gpus) const = 0;
  // Throws ConfigError when it can never start here, std::system_error when a process cannot.
  virtual void start(const LaunchRequest& request) = 0;
  // Waits up to `timeout` for ranks to end or time limits to pass, and returns the launches that
  // are over: every one of their processes is gone.
  virtual std::vector<LaunchResult> wait(std::chrono::milliseconds timeout) = 0;
  // Asks every running launch to stop (SIGTERM, then SIGKILL); wait() returns them as kInterrupted.
  // Called again while they stop: kills them at once.
  virtual void stop_all() = 0;
};

}  // namespace fsdp
