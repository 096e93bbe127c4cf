#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/text/fields.h"

// Launcher: starts a run's ranks and tells how they ended. It knows neither store nor reports.
namespace fsdp {

// One attempt at one run.
struct LaunchRequest {
  int64_t id = 0;                                  // the caller's; comes back in AttemptEnd
  std::filesystem::path trainer{};                 // the program
  std::vector<std::string> arguments{};            // --spec .../run.yaml --attempt N
  std::vector<std::string> environment{};          // NAME=value, over this process's own
  std::vector<std::filesystem::path> rank_logs{};  // stdout and stderr of rank r; one per rank
  bool uses_gpus = false;  // one GPU slot per rank, else one CPU-rank slot per rank
  std::optional<std::chrono::seconds> time_limit{};
  // The time that ranks have to end after they are asked to stop, if none has failed. nullopt: the
  // launcher's own patience.
  std::optional<std::chrono::seconds> time_to_stop{};
};

// kNodeFailed: a node failed, which ended the job. kNotStarted: no rank was started. kUnseen: the
// watching process was killed, so nobody saw the end.
enum class LaunchOutcome {
  kExited,
  kOutOfMemory,
  kFailed,
  kTimeLimit,
  kInterrupted,
  kNodeFailed,
  kNotStarted,
  kUnseen,
};
constexpr auto enum_names(LaunchOutcome) {
  return std::array{"exited"sv,      "out_of_memory"sv, "failed"sv,      "time_limit"sv,
                    "interrupted"sv, "node_failed"sv,   "not_started"sv, "unseen"sv};
}

// kQueued includes requeued tasks that wait again. kEnding: the processes are being ended, or the
// state is unknown.
enum class TaskPhase { kQueued, kRunning, kEnding, kEnded };

// One task of a job array, or a job without an array.
struct TaskState {
  std::string job;  // "12_3" or "12"
  TaskPhase phase = TaskPhase::kQueued;
  std::string state;                      // the queue's word: PENDING, RUNNING, OUT_OF_MEMORY, ...
  std::string reason{};                   // why it waits or ended, in the queue's word
  std::string node_list{};                // n[1-2]; empty: on no node
  std::optional<int64_t> seconds_left{};  // until its time limit, while it runs

  bool operator==(const TaskState&) const = default;
};

// The facts about an attempt without running processes, except its ranks' reports. The visited
// fields are the file end.json, which the process that started the ranks writes.
struct AttemptEnd {
  int64_t run = 0;  // as LaunchRequest::id
  LaunchOutcome outcome = LaunchOutcome::kUnseen;
  // Empty if kExited. Otherwise one line about the first rank that failed: "rank 2 killed by signal
  // 9", "rank 0 exited with status 4".
  std::string reason{};
  int first_rank = -1;        // the rank `reason` is about; -1: none
  int64_t ended_unix_ms = 0;  // kUnseen: the latest possible time
  // True if the run's inputs were compared at its end; changed_input() gave the next member.
  bool inputs_compared = false;
  std::optional<std::string> changed_input{};
  // The starts in a row without a new checkpoint, if slurm.max_restarts forbids another.
  std::optional<int64_t> starts_in_a_row{};

  // The following members are set only for an attempt in a job of Slurm.
  bool in_job = false;
  bool was_requeued = false;        // another attempt followed it, or its task waits again
  bool shares_memory = false;       // the task runs several runs at the same time
  std::optional<TaskState> task{};  // Slurm's state of its task, which is over

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("ended_unix_ms", self.ended_unix_ms);
    visit("outcome", self.outcome);
    visit("reason", self.reason);
    visit("first_rank", self.first_rank);
    visit("inputs_compared", self.inputs_compared);
    visit("changed_input", self.changed_input);
    visit("starts_in_a_row", self.starts_in_a_row);
  }
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  // True if a launch of this many ranks could start now beside the running ones.
  virtual bool has_room(size_t ranks, bool uses_gpus) const = 0;
  // Throws ConfigError if the launch can never start here, std::system_error if a process cannot.
  virtual void start(const LaunchRequest& request) = 0;
  // Waits up to `timeout` for ranks to end or time limits to pass. Returns the launches that are
  // over. None of their processes are left.
  virtual std::vector<AttemptEnd> wait(std::chrono::milliseconds timeout) = 0;
  // Asks every running launch to stop (SIGTERM or SIGUSR1), and kills it later (SIGKILL). wait()
  // returns it as kInterrupted. A second call kills the launches at once.
  virtual void stop_all() = 0;
};

}  // namespace fsdp
