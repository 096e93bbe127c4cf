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

// The end of a launch's processes. It is the supervisor's last message, when no process is left.
// kUnseen: the supervisor was killed.
struct ProcessEnd {
  LaunchOutcome outcome = LaunchOutcome::kExited;
  int first_rank = -1;
  int wait_status = 0;  // of first_rank, as waitpid gives it
  bool killed = false;  // a rank was ended by a signal
  // Set by the runner: the kernel killed a process of the runner's cgroup meanwhile, because memory
  // ran out.
  bool memory_ran_out = false;
};

// True if the process exited with `code`. `wait_status` comes from waitpid().
bool ended_with(int wait_status, ExitCode code);

// Starts the ranks, reports, waits for their end, and reports again. Runs in the forked child,
// which has one thread.
[[noreturn]] void supervise(int channel, const SupervisorPlan& plan);

}  // namespace fsdp
