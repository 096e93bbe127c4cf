#pragma once

#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "contract/record/exit_code.h"
#include "runner/run/launcher.h"

// The supervisor is a small process per launch, forked by the runner. It is the parent of the
// ranks. It exists because the runner may die in any way. The supervisor then ends the ranks and
// everything that they started.
//
//   runner --- socket --- supervisor (own process group, adopts orphans)
//                             |- rank 0   (the ranks: one process group,
//                             |- rank 1    they die with the supervisor)
//                             ...
//
// The supervisor learns of the runner's death from the socket's end of file. It also decides how a
// launch ends (first cause, patience, time limit), so the runner only reads one report.
namespace fsdp {

// The times that ranks have to end by themselves.
struct Patience {
  // From the first rank's failure to the stop signal. Meanwhile the other ranks may report the
  // cause.
  std::chrono::milliseconds after_failure{3000};
  // From the stop signal to SIGKILL, unless the launch has a time to stop.
  std::chrono::milliseconds after_terminate{4000};
};

struct RankProcess {
  std::vector<std::string> environment;  // NAME=value, complete
  std::string log;                       // appended to
};

struct SupervisorPlan {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<RankProcess> ranks;
  std::optional<std::chrono::milliseconds> time_limit;
  std::optional<std::chrono::milliseconds> time_to_stop;  // as in LaunchRequest
  Patience patience;
  int stop_signal = SIGTERM;  // asks a rank to stop
};

// An order from runner to supervisor, one byte.
enum class SupervisorOrder : char { kStop = 's', kKill = 'k' };

// The supervisor's first message: whether every rank runs the trainer.
struct StartReport {
  int error_number = 0;  // 0: all started
  int rank = -1;         // the one that did not start
  bool log_failed = false;
  int process_group = 0;  // of the ranks
};

// The processes that the kernel killed because a cgroup reached its memory limit.
struct LimitKills {
  int64_t limit_bytes = 0;
  int64_t count = 0;       // killed processes that shared the limit
  int64_t held_bytes = 0;  // the cgroup's memory in use after the kills
};

// The end of a launch's processes. It is the supervisor's last message, when no process is left.
// kUnseen: the supervisor was killed.
struct ProcessEnd {
  LaunchOutcome outcome = LaunchOutcome::kExited;
  int first_rank = -1;
  int wait_status = 0;   // of first_rank, as waitpid gives it
  bool killed = false;   // a rank was ended by a signal
  int ranks_killed = 0;  // by SIGKILL that the supervisor did not send

  // The runner sets the following members.
  // True if the kernel killed a process of the host for lack of memory in the launch's last minute.
  bool memory_ran_out = false;
  // The kills for the memory limit of this process's job or container (cgroup). nullopt: none.
  std::optional<LimitKills> limit_kills{};
  // True if no other launch used the same memory at any time.
  bool was_alone = true;
};

// True if the process exited with `code`. `wait_status` comes from waitpid().
bool ended_with(int wait_status, ExitCode code);

// Starts the ranks, reports, waits for their end, and reports again. Runs in the forked child,
// which has one thread.
[[noreturn]] void supervise(int channel, const SupervisorPlan& plan);

}  // namespace fsdp
