#include "runner/slurm/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <thread>

namespace fsdp {
namespace {

using Clock = std::chrono::steady_clock;

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
    }
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_write_end() { close_end(1); }

  // False at the end of the file.
  bool read_some(std::string& text) const {
    std::array<char, 65536> buffer;
    const ssize_t count = read(ends_[0], buffer.data(), buffer.size());
    if (count > 0) text.append(buffer.data(), static_cast<size_t>(count));
    return count > 0 || (count < 0 && errno == EINTR);
  }

 private:
  void close_end(size_t end) {
    if (ends_[end] >= 0) close(ends_[end]);
    ends_[end] = -1;
  }
  std::array<int, 2> ends_ = {-1, -1};
};

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

pid_t spawn(const std::vector<std::string>& words, const std::vector<std::string>& environment,
            const Pipe& output, const Pipe& error) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output.write_end(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, error.write_end(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  pid_t process = 0;
  const int failure = posix_spawnp(&process, words[0].c_str(), &files, &attributes,
                                   pointers_to(words).data(), pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failure != 0) {
    throw std::system_error(failure, std::generic_category(), "cannot start " + words[0]);
  }
  return process;
}

// Reads both until they end; false when the deadline comes first.
bool read_all(const Pipe& output, const Pipe& error, Clock::time_point deadline,
              ProgramResult& result) {
  std::array<pollfd, 2> ends = {pollfd{.fd = output.read_end(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = error.read_end(), .events = POLLIN, .revents = 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (poll(ends.data(), ends.size(), static_cast<int>(left)) <= 0) continue;
    if (ends[0].revents != 0 && !output.read_some(result.output)) ends[0].fd = -1;
    if (ends[1].revents != 0 && !error.read_some(result.error)) ends[1].fd = -1;
  }
  return true;
}

// Its status as waitpid has it, once it has ended; false when the deadline comes first.
bool wait_until(pid_t process, Clock::time_point deadline, int& status) {
  constexpr std::chrono::milliseconds kBetweenLooks{2};
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return true;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& words,
                          const std::vector<std::string>& environment,
                          std::chrono::milliseconds time_limit) {
  const Clock::time_point deadline = Clock::now() + time_limit;
  Pipe output;
  Pipe error;
  const pid_t process = spawn(words, environment, output, error);
  output.close_write_end();
  error.close_write_end();
  ProgramResult result;
  int status = 0;
  result.timed_out =
      !read_all(output, error, deadline, result) || !wait_until(process, deadline, status);
  if (result.timed_out) {
    kill(-process, SIGKILL);
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
  }
  result.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace fsdp
