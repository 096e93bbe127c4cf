#include "runner/run/supervised_launches.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/system/cgroups.h"
#include "contract/record/host_memory.h"

namespace fsdp {
namespace {

std::string remedy(const StartReport& report) {
  if (report.error_number != EAGAIN) return "";
  return ": no more processes may be started here: end others, or raise the limit (ulimit -u, or "
         "that of the container)";
}

// Explains a rank's death by SIGKILL.
void explain_kill(bool memory_ran_out, AttemptEnd& end) {
  if (!memory_ran_out) {
    end.reason += " (memory may have run out: see dmesg)";
    return;
  }
  end.outcome = LaunchOutcome::kOutOfMemory;
  end.reason += fmt::format(
      ": meanwhile the kernel ended a process because {}; use a smaller model or "
      "batch, or fewer ranks on the host",
      kMemoryKill);
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
  const int64_t kills_before = memory_kills();
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
  running_.push_back({.request = request,
                      .supervisor = supervisor,
                      .process_group = report.process_group,
                      .channel = channel[0],
                      .kills_before = kills_before});
}

std::vector<std::pair<LaunchRequest, ProcessEnd>> SupervisedLaunches::wait(
    std::chrono::milliseconds timeout) {
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
  ProcessEnd ended;
  const bool is_reported = recv(running.channel, &ended, sizeof ended, 0) == sizeof ended;
  close(running.channel);
  if (!is_reported) {
    kill(-running.process_group, SIGKILL);  // what dead ranks started may still run
    ended = {.outcome = LaunchOutcome::kUnseen, .killed = true};
  }
  ended.memory_ran_out = ended.wait_status == SIGKILL && memory_kills() > running.kills_before;
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
      if (processes.wait_status == SIGKILL) explain_kill(processes.memory_ran_out, end);
      break;
  }
  return end;
}

}  // namespace fsdp
