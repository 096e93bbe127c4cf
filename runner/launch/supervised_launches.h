#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/launch/launcher.h"
#include "runner/launch/out_of_memory_kills.h"
#include "runner/launch/supervisor.h"

namespace fsdp {

// A launch that is over.
struct EndedLaunch {
  LaunchRequest request;
  std::optional<EndReport> report;  // absent: its supervisor was killed
  // True if the kernel killed a process of the host for lack of memory in the launch's last minute.
  bool memory_ran_out = false;
  // The kills for the memory limit of this process's job or container (cgroup). nullopt: none.
  std::optional<LimitKills> limit_kills{};
  // True if no other launch used the same memory at any time.
  bool was_alone = true;
};

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
  std::vector<EndedLaunch> wait(std::chrono::milliseconds timeout);
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

  static EndedLaunch finish(const Running& running);

  std::vector<Running> running_;
  bool stopping_ = false;
};

// Describes how a process ended: "rank 2 killed by signal 9", "srun exited with status 4".
std::string describe(const std::string& whose, int wait_status);

// Returns the result for the caller of a launcher. A failure names the first failed rank.
LaunchResult launch_result(const EndedLaunch& ended);

// The environment of this process, by name.
std::map<std::string, std::string> own_environment();

}  // namespace fsdp
