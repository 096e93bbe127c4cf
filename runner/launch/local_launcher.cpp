#include "runner/launch/local_launcher.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <system_error>

#include "runner/launch/rank_variables.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/exit_code.h"

namespace fsdp {
namespace {

[[noreturn]] void throw_system_error(int error_number, const std::string& what) {
  throw std::system_error(error_number, std::generic_category(), what);
}

// A TCP port that nobody listens on now.
int free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found =
      descriptor >= 0 &&
      bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int error_number = errno;
  if (descriptor >= 0) close(descriptor);
  if (!found) throw_system_error(error_number, "cannot find a free port on 127.0.0.1");
  return ntohs(address.sin_port);
}

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = std::min(text.find('='), text.size());
    variables.emplace(text.substr(0, equals), text.substr(std::min(equals + 1, text.size())));
  }
  return variables;
}

std::string describe(const EndReport& end) {
  const std::string rank = "rank " + std::to_string(end.first_rank);
  if (end.outcome == LaunchOutcome::kOutOfMemory) return rank + " ran out of memory";
  if (WIFSIGNALED(end.wait_status)) {
    return rank + " killed by signal " + std::to_string(WTERMSIG(end.wait_status));
  }
  return rank + " exited with status " + std::to_string(WEXITSTATUS(end.wait_status));
}

}  // namespace

LocalLauncher::LocalLauncher(LocalSlots slots, Patience patience)
    : slots_(std::move(slots)), patience_(patience) {}

LocalLauncher::~LocalLauncher() {
  for (const Running& running : running_) {
    close(running.channel);  // as if this process had died
    waitpid(running.supervisor, nullptr, 0);
  }
}

std::vector<Gpu> LocalLauncher::free_gpus() const {
  std::vector<Gpu> free;
  for (const Gpu& gpu : slots_.gpus) {
    const bool taken = std::any_of(running_.begin(), running_.end(), [&](const Running& running) {
      return std::any_of(running.gpus.begin(), running.gpus.end(),
                         [&](const Gpu& other) { return other.index == gpu.index; });
    });
    if (!taken) free.push_back(gpu);
  }
  return free;
}

bool LocalLauncher::has_room(size_t ranks, bool uses_gpus) const {
  if (running_.empty()) return true;
  if (stopping_ || running_.size() >= static_cast<size_t>(slots_.max_parallel)) return false;
  if (uses_gpus) return ranks <= free_gpus().size();
  size_t busy = 0;
  for (const Running& running : running_) {
    if (!running.request.uses_gpus) busy += running.request.rank_logs.size();
  }
  return busy + ranks <= static_cast<size_t>(slots_.cpu_ranks);
}

SupervisorPlan LocalLauncher::plan(const LaunchRequest& request,
                                   const std::vector<Gpu>& gpus) const {
  RankPlace place{.ranks = request.rank_logs.size(), .port = free_port(), .visible_gpus = {}};
  for (const Gpu& gpu : gpus) {
    if (!place.visible_gpus.empty()) place.visible_gpus += ',';
    place.visible_gpus += std::to_string(gpu.index);
  }
  std::map<std::string, std::string> variables = own_environment();
  SupervisorPlan plan{.trainer = request.trainer,
                      .arguments = request.arguments,
                      .ranks = {},
                      .time_limit = request.time_limit,
                      .time_to_stop = request.time_to_stop,
                      .patience = patience_};
  for (size_t rank = 0; rank < request.rank_logs.size(); ++rank) {
    for (const auto& [name, value] : rank_variables(place, rank)) variables[name] = value;
    RankProcess& process = plan.ranks.emplace_back();
    process.log = request.rank_logs[rank];
    for (const auto& [name, value] : variables) process.environment.push_back(name + '=' + value);
  }
  return plan;
}

void LocalLauncher::start(const LaunchRequest& request) {
  std::vector<Gpu> gpus;
  const size_t ranks = request.rank_logs.size();
  if (request.uses_gpus) {
    if (ranks > slots_.gpus.size()) {
      throw ConfigError("", "strategy.ranks",
                        std::to_string(ranks) + " ranks need " + std::to_string(ranks) +
                            " GPUs; allowed here: at most " + std::to_string(slots_.gpus.size()));
    }
    const std::vector<Gpu> free = free_gpus();
    const size_t needed = std::min(ranks, free.size());
    gpus = unheld_gpus(free, needed);
    gpus.resize(needed);
  }
  const SupervisorPlan launch = plan(request, gpus);
  int channel[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) {
    throw_system_error(errno, "cannot start " + launch.trainer);
  }
  const pid_t supervisor = fork();
  if (supervisor == 0) supervise(channel[1], launch);
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
        report.log_failed ? launch.ranks[size_t(report.rank)].log : launch.trainer;
    throw_system_error(
        report.error_number,
        "cannot start rank " + std::to_string(std::max(report.rank, 0)) + ": " + what);
  }
  running_.push_back({.request = request,
                      .gpus = std::move(gpus),
                      .supervisor = supervisor,
                      .process_group = report.process_group,
                      .channel = channel[0]});
}

std::vector<LaunchResult> LocalLauncher::wait(std::chrono::milliseconds timeout) {
  std::vector<pollfd> channels;
  for (const Running& running : running_) channels.push_back({running.channel, POLLIN, 0});
  if (channels.empty() || poll(channels.data(), channels.size(), int(timeout.count())) <= 0) {
    return {};
  }
  std::vector<LaunchResult> results;
  std::vector<Running> still_running;
  for (size_t i = 0; i < channels.size(); ++i) {
    if (channels[i].revents == 0) {
      still_running.push_back(running_[i]);
    } else {
      results.push_back(finish(running_[i]));
    }
  }
  running_ = std::move(still_running);
  if (running_.empty()) stopping_ = false;
  return results;
}

LaunchResult LocalLauncher::finish(const Running& running) const {
  EndReport end;
  const bool reported = recv(running.channel, &end, sizeof end, 0) == sizeof end;
  close(running.channel);
  if (!reported) kill(-running.process_group, SIGKILL);  // ranks have died with their supervisor
  waitpid(running.supervisor, nullptr, 0);
  LaunchResult result{
      .id = running.request.id, .outcome = end.outcome, .reason = {}, .first_rank = end.first_rank};
  if (!reported) {
    result.outcome = LaunchOutcome::kFailed;
    result.reason = "the run's supervisor was killed";
    return result;
  }
  switch (end.outcome) {
    case LaunchOutcome::kExited:
      break;
    case LaunchOutcome::kInterrupted:
      result.reason = "asked to stop";
      break;
    case LaunchOutcome::kTimeLimit:
      result.reason = "stopped at its time limit of " +
                      std::to_string(running.request.time_limit->count()) + " s";
      break;
    case LaunchOutcome::kOutOfMemory:
    case LaunchOutcome::kFailed:
      result.reason = describe(end);
      break;
  }
  return result;
}

void LocalLauncher::stop_all() {
  const auto order = static_cast<char>(stopping_ ? SupervisorOrder::kKill : SupervisorOrder::kStop);
  for (const Running& running : running_) send(running.channel, &order, 1, MSG_NOSIGNAL);
  stopping_ = !running_.empty();
}

}  // namespace fsdp
