#include "runner/run/supervised_launches.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "base/text/bytes_text.h"
#include "contract/record/host_memory.h"

namespace fsdp {
namespace {

std::string remedy(const StartReport& report) {
  if (report.error_number != EAGAIN) return "";
  return ": no more processes may be started here: end others, or raise the limit (ulimit -u, or "
         "that of the container)";
}

// Other programs (shells, editors, this program, its planner) are not blamed if they hold at most
// 1/20 of the limit, or at most 128 MiB.
constexpr int64_t kLittlePart = 20;
constexpr int64_t kLittleBytes = 128 << 20;

// The message for a memory limit of a job or container: "..., 1.25 GiB, was reached".
std::string limit_text(int64_t bytes) {
  return fmt::format("{}, {}, was reached", kCgroupLimit, bytes_text(bytes));
}

// Says who else used the memory under the limit, and what to do. Empty if nobody did.
std::string who_shared(const ProcessEnd& ended) {
  const LimitKills& kills = *ended.limit_kills;
  const int64_t little_bytes = std::max(kills.limit_bytes / kLittlePart, kLittleBytes);
  if (!ended.was_alone) {
    return "runs at the same time share this limit: --max-parallel 1 runs one at a time";
  }
  if (kills.held_bytes > little_bytes) {
    return fmt::format("other programs hold {} of it: end them, or run where no other program does",
                       bytes_text(kills.held_bytes));
  }
  if (kills.count > ended.ranks_killed) {
    return "it also ended other programs, which shared this limit: run where no other program does";
  }
  return "";
}

// Judges a rank that was killed by SIGKILL. The run did not fit if the kernel killed processes at
// the cgroup's memory limit and nobody else used that memory.
void judge_kill(const ProcessEnd& ended, AttemptEnd& end) {
  const std::string remedy = "use a smaller model or batch, or fewer ranks on the host";
  if (ended.limit_kills) {
    const std::string limit = limit_text(ended.limit_kills->limit_bytes);
    const std::string others = who_shared(ended);
    if (others.empty()) end.outcome = LaunchOutcome::kOutOfMemory;
    end.reason +=
        others.empty()
            ? fmt::format(" because {}; {}", limit, remedy)
            : fmt::format(": meanwhile the kernel ended a process because {}; {}", limit, others);
  } else if (ended.memory_ran_out) {
    end.reason +=
        ": meanwhile the kernel ended a process because the host's memory ran out; " + remedy;
  }
}

}  // namespace

SupervisedLaunches::~SupervisedLaunches() {
  for (const Running& running : running_) {
    close(running.channel);  // as if this process had died
    waitpid(running.supervisor, nullptr, 0);
  }
}

void SupervisedLaunches::start(const LaunchRequest& request, const SupervisorPlan& plan) {
  int channel[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot start " + plan.program);
  }
  const KillsBefore kills_before(kill_counts(), KillsBefore::Clock::now());
  const pid_t supervisor = fork();
  if (supervisor == 0) supervise(channel[1], plan);
  const int fork_error = errno;
  close(channel[1]);
  StartReport report{.error_number = fork_error};
  if (supervisor > 0 && recv(channel[0], &report, sizeof report, 0) != sizeof report) {
    report = {.error_number = ECHILD};
  }
  if (report.error_number != 0) {
    close(channel[0]);
    if (supervisor > 0) waitpid(supervisor, nullptr, 0);
    const std::string& what =
        report.log_failed ? plan.ranks[size_t(report.rank)].log : plan.program;
    throw std::system_error(
        report.error_number, std::generic_category(),
        fmt::format("cannot start rank {}: {}{}", std::max(report.rank, 0), what, remedy(report)));
  }
  for (Running& other : running_) other.is_alone = false;
  running_.push_back({.request = request,
                      .supervisor = supervisor,
                      .process_group = report.process_group,
                      .channel = channel[0],
                      .kills_before = kills_before,
                      .is_alone = running_.empty()});
}

std::vector<std::pair<LaunchRequest, ProcessEnd>> SupervisedLaunches::wait(
    std::chrono::milliseconds timeout) {
  const KillsBefore::Clock::time_point now = KillsBefore::Clock::now();
  for (Running& running : running_) {
    if (running.kills_before.is_due(now)) running.kills_before.note(kill_counts(), now);
  }
  std::vector<pollfd> channels;
  for (const Running& running : running_) channels.push_back({running.channel, POLLIN, 0});
  if (channels.empty() || poll(channels.data(), channels.size(), int(timeout.count())) <= 0) {
    return {};
  }
  std::vector<std::pair<LaunchRequest, ProcessEnd>> ended;
  std::vector<Running> still_running;
  for (size_t i = 0; i < channels.size(); ++i) {
    if (channels[i].revents == 0) {
      still_running.push_back(running_[i]);
    } else {
      ended.emplace_back(running_[i].request, finish(running_[i]));
    }
  }
  running_ = std::move(still_running);
  if (running_.empty()) stopping_ = false;
  return ended;
}

ProcessEnd SupervisedLaunches::finish(const Running& running) {
  const KillCounts& before = running.kills_before.counts();
  const KillCounts now = kill_counts();
  ProcessEnd ended;
  const bool is_reported = recv(running.channel, &ended, sizeof ended, 0) == sizeof ended;
  close(running.channel);
  if (!is_reported) {
    kill(-running.process_group, SIGKILL);  // what dead ranks started may still run
    ended = {.outcome = LaunchOutcome::kUnseen, .killed = true};
  }
  ended.memory_ran_out = now.of_host && before.of_host && *now.of_host > *before.of_host;
  ended.limit_kills = limit_kills(before.cgroups, now.cgroups);
  ended.was_alone = running.is_alone;
  waitpid(running.supervisor, nullptr, 0);
  return ended;
}

void SupervisedLaunches::stop_all() {
  const auto order = static_cast<char>(stopping_ ? SupervisorOrder::kKill : SupervisorOrder::kStop);
  for (const Running& running : running_) send(running.channel, &order, 1, MSG_NOSIGNAL);
  stopping_ = !running_.empty();
}

std::string describe(const std::string& whose, int wait_status) {
  return WIFSIGNALED(wait_status)
             ? fmt::format("{} killed by signal {}", whose, WTERMSIG(wait_status))
             : fmt::format("{} exited with status {}", whose, WEXITSTATUS(wait_status));
}

AttemptEnd attempt_end(const LaunchRequest& request, const ProcessEnd& processes) {
  AttemptEnd end{.run = request.id,
                 .outcome = processes.outcome,
                 .reason = {},
                 .first_rank = processes.first_rank};
  const std::string rank = "rank " + std::to_string(end.first_rank);
  switch (end.outcome) {
    case LaunchOutcome::kExited:
    case LaunchOutcome::kNodeFailed:  // a supervisor reports neither this nor the next outcome
    case LaunchOutcome::kNotStarted:
      break;
    case LaunchOutcome::kUnseen:
      end.outcome = LaunchOutcome::kFailed;
      end.reason = "the run's supervisor was killed";
      break;
    case LaunchOutcome::kInterrupted:
      end.reason = "asked to stop";
      break;
    case LaunchOutcome::kTimeLimit:
      end.reason = fmt::format("stopped at its time limit of {} s", request.time_limit->count());
      break;
    case LaunchOutcome::kOutOfMemory:
      end.reason = rank + " ran out of memory";
      break;
    case LaunchOutcome::kFailed:
      end.reason = describe(rank, processes.wait_status);
      if (processes.wait_status == SIGKILL) judge_kill(processes, end);
      break;
  }
  return end;
}

std::optional<int64_t> out_of_memory_kills(const std::filesystem::path& file) {
  return count_in(file, "oom_kill");
}

std::optional<LimitKills> limit_kills(const std::vector<CgroupMemory>& before,
                                      const std::vector<CgroupMemory>& after) {
  const bool are_the_same =
      std::ranges::equal(before, after, {}, &CgroupMemory::folder, &CgroupMemory::folder);
  if (!are_the_same || after.empty() || after.front().kills <= before.front().kills) {
    return std::nullopt;
  }
  // In cgroups of version 1, the count of a cgroup leaves out kills in the cgroups below it.
  const int64_t own_kills = after.front().kills - before.front().kills;
  std::optional<LimitKills> found;
  for (size_t i = 0; i < after.size(); ++i) {
    const bool was_hit = after[i].limit_hits > before[i].limit_hits;
    if (!was_hit || after[i].limit_bytes == CgroupMemory::kNoLimit) continue;
    if (found && found->limit_bytes <= after[i].limit_bytes) continue;
    found = {.limit_bytes = after[i].limit_bytes,
             .count = std::max(own_kills, after[i].kills - before[i].kills),
             .held_bytes = after[i].held_bytes};
  }
  return found;
}

KillCounts kill_counts() { return {.of_host = out_of_memory_kills(), .cgroups = memory_cgroups()}; }

void KillsBefore::note(KillCounts counts, Clock::time_point now) {
  counts_ = std::exchange(later_, std::move(counts));
  later_at_ = now;
}

}  // namespace fsdp
