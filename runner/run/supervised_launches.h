#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runner/run/launcher.h"
#include "runner/run/supervisor.h"

namespace fsdp {

// The launches under way, each with its own supervisor. They die with the process that made this
// object. Forks, so the process must have only one thread.
class SupervisedLaunches {
 public:
  SupervisedLaunches() = default;
  // Kills the launches that still run.
  ~SupervisedLaunches();
  SupervisedLaunches(const SupervisedLaunches&) = delete;
  SupervisedLaunches& operator=(const SupervisedLaunches&) = delete;

  // Throws std::system_error if a process cannot be started.
  void start(const LaunchRequest& request, const SupervisorPlan& plan);
  // wait() and stop_all() work as in Launcher.
  std::vector<std::pair<LaunchRequest, ProcessEnd>> wait(std::chrono::milliseconds timeout);
  void stop_all();

  bool are_stopping() const { return stopping_; }

 private:
  struct Running {
    LaunchRequest request;
    int supervisor = 0;     // its process id
    int process_group = 0;  // of the ranks
    int channel = -1;
    int64_t kills_before = 0;  // memory_kills() at its start
  };

  static ProcessEnd finish(const Running& running);

  std::vector<Running> running_;
  bool stopping_ = false;
};

// Describes how a process ended: "rank 2 killed by signal 9", "srun exited with status 4".
std::string describe(const std::string& whose, int wait_status);

// Converts `processes` to the AttemptEnd that a launcher returns. The reason of a failure names the
// first failed rank.
AttemptEnd attempt_end(const LaunchRequest& request, const ProcessEnd& processes);

}  // namespace fsdp
