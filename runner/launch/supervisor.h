#pragma once

#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "contract/record/exit_code.h"
#include "runner/launch/launcher.h"

// The supervisor: one small process per launch, forked by the runner, that is the parent of the
// ranks. It lives for one reason: when the runner dies, however it dies, something must be left
// that ends the ranks and everything they started.
//
//   runner --- socket --- supervisor (own process group, adopts orphans)
//                             |- rank 0   (the ranks: one process group,
//                             |- rank 1    they die with the supervisor)
//                             ...
//
// The socket's end of file is the runner's death. The supervisor also decides how a launch ends
// (first cause, patience, time limit), so the runner only reads one report.
namespace fsdp {

// How long ranks may take to end by themselves.
struct Patience {
  // From the first rank that ended badly until the others get SIGTERM: they may say why.
  std::chrono::milliseconds after_failure{3000};
  // From SIGTERM to SIGKILL, unless the launch has a time to stop.
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
  std::optional<std::chrono::milliseconds> time_to_stop;  // as LaunchRequest has it
  Patience patience;
  int stop_signal = SIGTERM;  // asks a rank to stop
};

// Runner to supervisor, one byte.
enum class SupervisorOrder : char { kStop = 's', kKill = 'k' };

// Supervisor to runner, first: whether every rank runs the trainer.
struct StartReport {
  int error_number = 0;  // 0: all started
  int rank = -1;         // that did not start
  bool log_failed = false;
  int process_group = 0;  // of the ranks
};

// Supervisor to runner, last: no process is left.
struct EndReport {
  LaunchOutcome outcome = LaunchOutcome::kExited;
  int first_rank = -1;
  int wait_status = 0;   // of first_rank, as waitpid gives it
  bool killed = false;   // a rank was ended by a signal
  int ranks_killed = 0;  // by SIGKILL that the supervisor did not send
};

// Whether a process ended with this exit status, as waitpid() gives it.
bool ended_with(int wait_status, ExitCode code);

// Starts the ranks, reports, waits for their end, reports. Runs in the forked child; the process is
// single-threaded.
[[noreturn]] void supervise(int channel, const SupervisorPlan& plan);

}  // namespace fsdp
