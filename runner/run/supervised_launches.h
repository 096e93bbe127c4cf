#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/system/cgroups.h"
#include "runner/run/launcher.h"
#include "runner/run/supervisor.h"

namespace fsdp {

// The number of processes killed by the kernel since boot because memory of the host, a job or a
// container ran out: oom_kill of /proc/vmstat, since Linux 4.13. nullopt: unknown.
std::optional<int64_t> out_of_memory_kills(const std::filesystem::path& file = "/proc/vmstat");

// Returns the memory limit that made the kernel kill processes of this process's cgroup between
// `before` and `after`. If several limits were reached, returns the smallest. nullopt: no process
// was killed, no limit was reached, or the cgroups changed.
std::optional<LimitKills> limit_kills(const std::vector<CgroupMemory>& before,
                                      const std::vector<CgroupMemory>& after);

// The kernel's counters of kills, as read at one moment: of the host and of each cgroup.
struct KillCounts {
  std::optional<int64_t> of_host;
  std::vector<CgroupMemory> cgroups;
};
KillCounts kill_counts();

// Keeps the counts of kills from shortly before now. A user's `kill -9` is then not blamed on a
// kill by the kernel hours ago.
class KillsBefore {
 public:
  using Clock = std::chrono::steady_clock;
  // Longer than ranks take to end after one is killed.
  static constexpr std::chrono::seconds kInterval{30};

  KillsBefore(KillCounts counts, Clock::time_point now)
      : counts_(counts), later_(std::move(counts)), later_at_(now) {}

  bool is_due(Clock::time_point now) const { return now >= later_at_ + kInterval; }
  // Call note() when is_due() is true.
  void note(KillCounts counts, Clock::time_point now);
  // Returns the counts from one to two intervals ago, or from the beginning if that is later.
  const KillCounts& counts() const { return counts_; }

 private:
  KillCounts counts_;
  KillCounts later_;
  Clock::time_point later_at_;
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
  std::vector<std::pair<LaunchRequest, ProcessEnd>> wait(std::chrono::milliseconds timeout);
  void stop_all();

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

// Converts `processes` to the AttemptEnd that a launcher returns. The reason of a failure names the
// first failed rank.
AttemptEnd attempt_end(const LaunchRequest& request, const ProcessEnd& processes);

}  // namespace fsdp
