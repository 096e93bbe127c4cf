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
  // True if the kernel killed a process of the host in the launch's last minute because memory ran
  // out.
  bool memory_ran_out = false;
  // The kills for the limit of this process's job or container (cgroup); absent: none.
  std::optional<LimitKills> limit_kills{};
  // Whether no other launch took of the same memory at any time.
  bool was_alone = true;
};

// The launches under way, each with a supervisor of its own. They die with the process that made
// this. Not for programs with several threads: it forks.
class SupervisedLaunches {
 public:
  SupervisedLaunches() = default;
  // Kills what still runs.
  ~SupervisedLaunches();
  SupervisedLaunches(const SupervisedLaunches&) = delete;
  SupervisedLaunches& operator=(const SupervisedLaunches&) = delete;

  // Throws std::system_error when a process cannot be started.
  void start(const LaunchRequest& request, const SupervisorPlan& plan);
  // As Launcher has it.
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

// `whose` and how the process ended: "rank 2 killed by signal 9", "srun exited with status 4".
std::string describe(const std::string& whose, int wait_status);

// What the caller of a launcher is told. A failure names the first rank.
LaunchResult launch_result(const EndedLaunch& ended);

// NAME to value.
std::map<std::string, std::string> own_environment();

}  // namespace fsdp
