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

// A request to start the ranks of one attempt.
struct LaunchRequest {
  int64_t id = 0;                                  // the caller's; returned as AttemptEnd::run
  std::filesystem::path trainer{};                 // the program
  std::vector<std::string> arguments{};            // --spec .../run.yaml --attempt N
  std::vector<std::string> environment{};          // NAME=value; overrides this process's variables
  std::vector<std::filesystem::path> rank_logs{};  // stdout and stderr of rank r; one per rank
  bool uses_gpus = false;  // takes one GPU slot per rank; if false, one CPU slot per rank
  std::optional<std::chrono::seconds> time_limit{};
  // The time from the stop signal to SIGKILL, if no rank has failed. nullopt: the launcher's
  // Patience::after_terminate.
  std::optional<std::chrono::seconds> time_to_stop{};
};

enum class LaunchOutcome {
  kExited,
  kOutOfMemory,
  kFailed,
  kTimeLimit,
  kInterrupted,
  kNodeFailed,  // a failed node ended the job, or the job ended before the ranks started
  kNotStarted,  // no rank was started
  kUnseen,      // the process that watched the ranks was killed, so nobody saw the end
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
  std::string script{};                   // (null) without one; empty: unknown

  bool operator==(const TaskState&) const = default;
};

// The end of an attempt, without its ranks' reports. The process that started the ranks writes the
// visited fields to end.json.
struct AttemptEnd {
  int64_t run = 0;  // as LaunchRequest::id
  LaunchOutcome outcome = LaunchOutcome::kUnseen;
  // One line, such as "rank 2 killed by signal 9" or "asked to stop". Empty if kExited or kUnseen.
  std::string reason{};
  int first_rank = -1;        // the rank `reason` is about; -1: none
  int64_t ended_unix_ms = 0;  // kUnseen: the time of the last event, else an estimate
  // True if the run's inputs need no further comparison. The result is `changed_input`.
  bool inputs_compared = false;
  std::optional<std::string> changed_input{};
  // The starts in a row without a new checkpoint, if slurm.max_restarts forbids another.
  std::optional<int64_t> starts_in_a_row{};

  // The following members are set only for an attempt in a job of Slurm.
  bool in_job = false;
  bool was_requeued = false;        // another attempt followed it, or its task waits again
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
  static bool is_required(std::string_view field) {
    return field == "outcome" || field == "ended_unix_ms";
  }
};

// To add a launcher, such as StepLauncher: implement this class as runner/cluster/step_launcher.h
// does. Make it in runner/commands/run_here.cpp or runner/commands/attempt.cpp. Test its
// starts, stops and reports, as tests/runner/slurm/step_launcher_test.cpp does. If users name it
// with --launcher, add it to runner/commands/options.cpp and runner/commands/completion.cpp.
class Launcher {
 public:
  virtual ~Launcher() = default;
  // True if a launch of this many ranks could start now, beside the running launches.
  virtual bool has_room(size_t ranks, bool uses_gpus) const = 0;
  // Throws ConfigError if the launch can never start here. Throws std::system_error if a process
  // cannot be started.
  virtual void start(const LaunchRequest& request) = 0;
  // Waits up to `timeout` for ranks to end or time limits to pass. Returns the launches that are
  // over. None of their processes are left.
  virtual std::vector<AttemptEnd> wait(std::chrono::milliseconds timeout) = 0;
  // Asks every running launch to stop (SIGTERM or SIGUSR1), and kills it later (SIGKILL). wait()
  // returns it as kInterrupted. A second call kills the launches at once.
  virtual void stop_all() = 0;
};

}  // namespace fsdp
