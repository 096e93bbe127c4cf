#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/launch/launcher.h"
#include "runner/launch/out_of_memory_kills.h"
#include "runner/launch/supervisor.h"

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

  size_t count() const { return running_.size(); }
  bool are_stopping() const { return stopping_; }

 private:
  struct Running {
    LaunchRequest request;
    int supervisor = 0;     // its process id
    int process_group = 0;  // of the ranks
    int channel = -1;
    KillsBefore kills_before;
    bool is_alone = true;
  };

  static ProcessEnd finish(const Running& running);

  std::vector<Running> running_;
  bool stopping_ = false;
};

// Describes how a process ended: "rank 2 killed by signal 9", "srun exited with status 4".
std::string describe(const std::string& whose, int wait_status);

// Returns the end for the caller of a launcher. A failure names the first failed rank.
AttemptEnd attempt_end(const LaunchRequest& request, const ProcessEnd& processes);

// The environment of this process, by name.
std::map<std::string, std::string> own_environment();

}  // namespace fsdp
