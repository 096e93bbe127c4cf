#include "runner/run/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/system/program.h"

namespace fsdp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kChannel = 3;  // where supervise() puts the socket
constexpr int kNotStarted = 127;

// The processes whose parent is `parent`.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code unreadable;
  for (std::filesystem::directory_iterator entry("/proc", unreadable), end; entry != end;
       entry.increment(unreadable)) {
    const pid_t process = std::atoi(entry->path().filename().c_str());
    if (process <= 0) continue;
    std::ifstream file(entry->path() / "stat");
    std::string line;
    std::getline(file, line);
    // The format is: process (name) state parent. A name may hold anything, even parentheses.
    const size_t name_end = line.rfind(')');
    if (name_end != std::string::npos && name_end + 4 < line.size() &&
        std::atoi(line.c_str() + name_end + 4) == parent) {
      children.push_back(process);
    }
  }
  return children;
}

class Supervisor {
 public:
  explicit Supervisor(const SupervisorPlan& plan) : plan_(plan) {}

  // Starts the trainer on every rank, or reports why it cannot.
  StartReport start();
  // Returns when no process is left.
  ProcessEnd wait_for_the_end();
  void end_everything();

 private:
  enum class Stage { kRunning, kFailing, kTerminating, kKilling };
  struct Rank {
    pid_t process = 0;
    bool ended = false;
  };

  // Returns a negative number, and sets errno, if no process can be made.
  pid_t start_rank(size_t rank, char* const* arguments, int errors) const;
  [[noreturn]] void become_rank(size_t rank, char* const* arguments, char* const* environment,
                                int errors) const;
  int poll_timeout_ms() const;
  void obey();
  void reap();
  void record(pid_t process, int wait_status);
  void on_deadline();
  void terminate(std::optional<LaunchOutcome> outcome);
  bool all_ended() const { return std::ranges::all_of(ranks_, &Rank::ended); }
  ProcessEnd report() const;

  const SupervisorPlan& plan_;
  const pid_t self_ = getpid();
  std::vector<Rank> ranks_;
  Stage stage_ = Stage::kRunning;
  std::optional<Clock::time_point> deadline_;
  std::optional<LaunchOutcome> stopped_as_;  // time limit or interruption
  std::optional<ProcessEnd> failure_;
  bool all_succeeded_ = true;
  bool killed_ = false;
};

StartReport Supervisor::start() {
  // A successful exec closes the pipe. Otherwise it carries the report.
  int errors[2];
  if (pipe2(errors, O_CLOEXEC) != 0) return {.error_number = errno};
  std::vector<char*> arguments = pointers_to(plan_.arguments);
  arguments.insert(arguments.begin(), const_cast<char*>(plan_.program.c_str()));
  for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
    const pid_t process = start_rank(rank, arguments.data(), errors[1]);
    if (process < 0) return {.error_number = errno, .rank = static_cast<int>(rank)};
    ranks_.push_back({.process = process});
    setpgid(process, ranks_.front().process);  // here and in the child: whoever comes first
  }
  close(errors[1]);
  StartReport report{.process_group = ranks_.front().process};
  StartReport failure;
  if (read(errors[0], &failure, sizeof failure) == sizeof failure) report = failure;
  close(errors[0]);
  if (plan_.time_limit) deadline_ = Clock::now() + *plan_.time_limit;
  return report;
}

// fork() would copy the page tables of a runner that knows thousands of runs.
pid_t Supervisor::start_rank(size_t rank, char* const* arguments, int errors) const {
  const std::vector<char*> environment = pointers_to(plan_.ranks[rank].environment);
  const pid_t process = vfork();
  if (process == 0) become_rank(rank, arguments, environment.data(), errors);
  return process;
}

// Runs in the memory of the supervisor, which waits until exec. It must not allocate, throw or
// return.
void Supervisor::become_rank(size_t rank, char* const* arguments, char* const* environment,
                             int errors) const {
  const auto give_up = [&](bool log_failed) {
    const StartReport failure{
        .error_number = errno, .rank = static_cast<int>(rank), .log_failed = log_failed};
    [[maybe_unused]] const ssize_t written = write(errors, &failure, sizeof failure);
    _exit(kNotStarted);
  };
  setpgid(0, ranks_.empty() ? 0 : ranks_.front().process);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != self_) _exit(kNotStarted);  // the supervisor died before the line above

  const int log = open(plan_.ranks[rank].log.c_str(),
                       O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (log < 0) give_up(/*log_failed=*/true);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);

  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan_.program.c_str(), arguments, environment);
  give_up(/*log_failed=*/false);
  _exit(kNotStarted);
}

ProcessEnd Supervisor::wait_for_the_end() {
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  const int signals = signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK);
  reap();  // what ended before the descriptor was there
  while (!all_ended() && stage_ != Stage::kKilling) {
    pollfd events[] = {{kChannel, POLLIN, 0}, {signals, POLLIN, 0}};
    poll(events, 2, poll_timeout_ms());
    if (events[1].revents != 0) {
      signalfd_siginfo ignored;
      while (read(signals, &ignored, sizeof ignored) > 0) {
      }
      reap();
    }
    if (events[0].revents != 0) obey();
    if (deadline_ && Clock::now() >= *deadline_) on_deadline();
  }
  end_everything();
  return report();
}

int Supervisor::poll_timeout_ms() const {
  if (!deadline_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000'000));
}

void Supervisor::obey() {
  char order = 0;
  const ssize_t received = recv(kChannel, &order, 1, MSG_DONTWAIT);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool runner_is_gone = received <= 0;
  if (runner_is_gone || order == static_cast<char>(SupervisorOrder::kKill)) {
    if (!failure_ && !stopped_as_) stopped_as_ = LaunchOutcome::kInterrupted;
    stage_ = Stage::kKilling;
  } else if (stage_ == Stage::kRunning || stage_ == Stage::kFailing) {
    terminate(LaunchOutcome::kInterrupted);
  }
}

void Supervisor::reap() {
  int wait_status = 0;
  while (const pid_t process = waitpid(-1, &wait_status, WNOHANG)) {
    if (process < 0) return;
    record(process, wait_status);
  }
}

// A failure counts until the ranks are told to stop. Running out of memory always counts. Exit
// status 4 (communication) means that another rank is gone, so any other cause replaces it.
void Supervisor::record(pid_t process, int wait_status) {
  const auto found = std::ranges::find_if(
      ranks_, [&](const Rank& rank) { return rank.process == process && !rank.ended; });
  if (found == ranks_.end()) return;  // an orphan that the supervisor adopted
  found->ended = true;
  if (ended_with(wait_status, ExitCode::kOk)) return;
  all_succeeded_ = false;
  killed_ |= WIFSIGNALED(wait_status);
  const bool out_of_memory = ended_with(wait_status, ExitCode::kOutOfMemory);
  const bool told_to_stop = stage_ == Stage::kTerminating || stage_ == Stage::kKilling;
  const ProcessEnd ending{
      .outcome = out_of_memory ? LaunchOutcome::kOutOfMemory : LaunchOutcome::kFailed,
      .first_rank = static_cast<int>(found - ranks_.begin()),
      .wait_status = wait_status};
  const bool first_out_of_memory =
      out_of_memory && (!failure_ || failure_->outcome != LaunchOutcome::kOutOfMemory);
  const bool better_cause =
      !failure_ || (failure_->outcome == LaunchOutcome::kFailed &&
                    ended_with(failure_->wait_status, ExitCode::kCommunication) &&
                    !ended_with(wait_status, ExitCode::kCommunication));
  if (first_out_of_memory || (!told_to_stop && better_cause)) failure_ = ending;
  if (stage_ == Stage::kRunning) {
    stage_ = Stage::kFailing;
    deadline_ = Clock::now() + plan_.patience.after_failure;
  } else if (stage_ == Stage::kTerminating && !ended_with(wait_status, ExitCode::kInterrupted)) {
    // The other ranks may wait in vain for this one.
    deadline_ = std::min(*deadline_, Clock::now() + plan_.patience.after_terminate);
  }
}

void Supervisor::on_deadline() {
  switch (stage_) {
    case Stage::kRunning:
      return terminate(LaunchOutcome::kTimeLimit);
    case Stage::kFailing:
      return terminate(std::nullopt);
    case Stage::kTerminating:
    case Stage::kKilling:
      stage_ = Stage::kKilling;
  }
}

void Supervisor::terminate(std::optional<LaunchOutcome> outcome) {
  const std::chrono::milliseconds after_terminate = plan_.patience.after_terminate;
  if (!failure_) stopped_as_ = outcome;
  stage_ = Stage::kTerminating;
  deadline_ =
      Clock::now() + (failure_ ? after_terminate : plan_.time_to_stop.value_or(after_terminate));
  kill(-ranks_.front().process, plan_.stop_signal);
}

// Kills the ranks first. This process is a subreaper: it adopts what ranks started when the parent
// dies. Killing children until none is left therefore ends every process, in any group or session.
void Supervisor::end_everything() {
  for (const Rank& rank : ranks_) {
    if (!rank.ended) kill(rank.process, SIGKILL);
  }
  for (;;) {
    int wait_status = 0;
    const pid_t process = waitpid(-1, &wait_status, WNOHANG);
    if (process < 0) return;
    if (process > 0) {
      record(process, wait_status);
      continue;
    }
    for (const pid_t child : children_of(self_)) kill(child, SIGKILL);
    siginfo_t ended;
    waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT);
  }
}

ProcessEnd Supervisor::report() const {
  const bool out_of_memory = failure_ && failure_->outcome == LaunchOutcome::kOutOfMemory;
  const bool stopped = stopped_as_ && !all_succeeded_ && !out_of_memory;
  ProcessEnd end = stopped ? ProcessEnd{.outcome = *stopped_as_} : failure_.value_or(ProcessEnd{});
  end.killed = killed_;
  return end;
}

}  // namespace

bool ended_with(int wait_status, ExitCode code) {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == static_cast<int>(code);
}

void supervise(int channel, const SupervisorPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_NAME, "fsdp-supervisor");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  // Closes everything of the runner's: its terminal and pipes, and its sockets of other launches.
  // Their supervisors learn of the runner's death from the sockets' end of file.
  if (channel != kChannel) dup2(channel, kChannel);
  const int nothing = open("/dev/null", O_RDWR);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(nothing, descriptor);
  }
  close_range(kChannel + 1, ~0U, 0);
  fcntl(kChannel, F_SETFD, FD_CLOEXEC);

  Supervisor supervisor(plan);
  const StartReport started = supervisor.start();
  if (started.error_number != 0) {
    supervisor.end_everything();
    send(kChannel, &started, sizeof started, MSG_NOSIGNAL);
    _exit(EXIT_FAILURE);
  }
  send(kChannel, &started, sizeof started, MSG_NOSIGNAL);
  const ProcessEnd ended = supervisor.wait_for_the_end();
  send(kChannel, &ended, sizeof ended, MSG_NOSIGNAL);
  _exit(EXIT_SUCCESS);
}

}  // namespace fsdp
