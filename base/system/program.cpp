#include "base/system/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "base/system/log.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

using Clock = std::chrono::steady_clock;

// Returns 0 or an error number.
int spawn(pid_t& process, const std::vector<std::string>& words,
          const std::vector<std::string>& environment, std::optional<int> input, int output,
          int error) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (input) {
    posix_spawn_file_actions_adddup2(&files, *input, STDIN_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, error, STDERR_FILENO);
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
  const int failure = posix_spawnp(&process, words[0].c_str(), &files, &attributes,
                                   pointers_to(words).data(), pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return failure;
}

// Waits for POLLIN or POLLOUT; false if the deadline comes first.
bool is_ready(int end, int16_t events, StartedProgram::Time deadline) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd ready{.fd = end, .events = events, .revents = 0};
    if (left <= 0) return false;
    if (poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 60'000))) > 0) return true;
  }
}

// False at the end of the file.
bool read_some(int end, std::string& text) {
  std::array<char, 4096> buffer;  // a stack may be as small as 128 KiB
  const ssize_t count = read(end, buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

}  // namespace

std::string python_program() {
  const char* const given = std::getenv("FSDP_PYTHON");
  if (given != nullptr && *given != '\0') return given;
  const std::string of_set_up = FSDP_VENV_PYTHON;
  return std::filesystem::exists(of_set_up) ? of_set_up : "python3";
}

std::vector<std::string> own_variables() {
  size_t count = 0;
  while (environ[count] != nullptr) ++count;
  return {environ, environ + count};
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

StartedProgram::StartedProgram(const std::vector<std::string>& words,
                               const std::vector<std::string>& environment) {
  std::array<std::array<int, 2>, 2> pipes{{{-1, -1}, {-1, -1}}};
  int failure = 0;
  for (auto& ends : pipes) {
    if (failure == 0 && pipe2(ends.data(), O_CLOEXEC) != 0) failure = errno;
  }
  if (failure == 0) failure = spawn(process_, words, environment, {}, pipes[0][1], pipes[1][1]);
  for (size_t i = 0; i < pipes.size(); ++i) {
    if (pipes[i][1] >= 0) close(pipes[i][1]);
    if (failure == 0) ends_[i] = pipes[i][0];
    if (failure != 0 && pipes[i][0] >= 0) close(pipes[i][0]);
  }
  if (failure == 0) return;
  throw std::system_error(failure, std::generic_category(), "cannot start " + words[0]);
}

StartedProgram::~StartedProgram() {
  for (const int end : ends_) close(end);
  if (process_ < 0) return;
  kill(-process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

// Reads both pipes until they end; false if the deadline comes first.
bool StartedProgram::read_all(Time deadline, ProgramResult& result) {
  std::array<pollfd, 2> ends{pollfd{.fd = ends_[0], .events = POLLIN, .revents = 0},
                             pollfd{.fd = ends_[1], .events = POLLIN, .revents = 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (poll(ends.data(), ends.size(), static_cast<int>(left)) <= 0) continue;
    if (ends[0].revents != 0 && !read_some(ends[0].fd, result.output)) ends[0].fd = -1;
    if (ends[1].revents != 0 && !read_some(ends[1].fd, result.error)) ends[1].fd = -1;
  }
  return true;
}

// Waits until the process has ended and sets its waitpid status; false if the deadline comes first.
bool StartedProgram::wait_until(Time deadline, int& status) {
  constexpr std::chrono::milliseconds kBetweenLooks{2};
  while (waitpid(process_, &status, WNOHANG) == 0) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return true;
}

ProgramResult StartedProgram::wait(Time deadline) {
  ProgramResult result;
  int status = 0;
  result.timed_out = !read_all(deadline, result) || !wait_until(deadline, status);
  if (result.timed_out) {
    kill(-process_, SIGKILL);
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  process_ = -1;
  result.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

Conversation::Conversation(const std::vector<std::string>& words,
                           const std::vector<std::string>& environment)
    : name_(words[0]), errors_(std::tmpfile()) {
  if (!errors_) throw std::system_error(errno, std::generic_category(), "a temporary file");
  // This process closes the program's ends, and the program closes ours.
  std::array<int, 2> questions{-1, -1};
  std::array<int, 2> answers{-1, -1};
  int failure = 0;
  // A socket, unlike a pipe, can be written to without a signal and without waiting.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, questions.data()) != 0 ||
      pipe2(answers.data(), O_CLOEXEC) != 0) {
    failure = errno;
  } else {
    failure = spawn(process_, words, environment, questions[0], answers[1], fileno(errors_.get()));
  }
  for (const int end : {questions[0], answers[1]}) {
    if (end >= 0) close(end);
  }
  to_ = questions[1];
  from_ = answers[0];
  if (failure == 0) return;
  end();
  throw std::system_error(failure, std::generic_category(), "cannot start " + name_);
}

Conversation::~Conversation() { end(); }

void Conversation::end() {
  for (int* end : {&to_, &from_}) {
    if (*end >= 0) close(std::exchange(*end, -1));
  }
  if (process_ < 0) return;
  kill(-process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
}

std::string Conversation::ask(std::string_view line, std::chrono::milliseconds patience) {
  const Clock::time_point deadline = Clock::now() + patience;
  const std::string question = std::string(line) + '\n';
  const auto wait_for = [&](int end, int16_t events) {
    if (is_ready(end, events, deadline)) return;
    throw std::runtime_error(name_ + " has not answered in " +
                             std::to_string(patience / std::chrono::seconds(1)) + " s");
  };
  for (size_t sent = 0; sent < question.size();) {
    wait_for(to_, POLLOUT);
    const ssize_t count =
        send(to_, question.data() + sent, question.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) break;  // it has ended, as reading will say
    sent += static_cast<size_t>(count);
  }
  size_t end = 0;
  for (size_t looked = 0; (end = heard_.find('\n', looked)) == std::string::npos;) {
    looked = heard_.size();
    wait_for(from_, POLLIN);
    if (!read_some(from_, heard_)) {
      std::rewind(errors_.get());
      std::array<char, 2000> said{};
      const size_t count = std::fread(said.data(), 1, said.size(), errors_.get());
      std::string text(said.data(), count);
      while (text.ends_with('\n')) text.pop_back();
      throw std::runtime_error(name_ + " ended without an answer" + (text.empty() ? "" : ": ") +
                               visible_line(text));
    }
  }
  std::string answer = heard_.substr(0, end);
  heard_.erase(0, end + 1);
  return answer;
}

void become_program(const std::vector<std::string>& words) {
  execvp(words[0].c_str(), pointers_to(words).data());
  throw std::system_error(errno, std::generic_category(), "cannot start " + words[0]);
}

ProgramResult run_program(const std::vector<std::string>& words,
                          const std::vector<std::string>& environment,
                          std::chrono::milliseconds time_limit) {
  const Clock::time_point started = Clock::now();
  ProgramResult result = StartedProgram(words, environment).wait(started + time_limit);
  const auto time =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started).count();
  std::string said;
  for (const std::string& word : words) said += word + ' ';
  said +=
      "(exit status " + std::to_string(result.exit_status) + ", " + std::to_string(time) + " ms)";
  log(LogLevel::kInfo, "program", said);
  return result;
}

}  // namespace fsdp
