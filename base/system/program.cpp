// Starts programs without a shell, and talks to them. Every wait has a deadline.
#include "base/system/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <limits>
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
          const std::vector<std::string>& environment, int input, int output, int error) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (input >= 0) {
    posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
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

std::string shell_quoted(std::string_view word) {
  const bool is_plain = word.find_first_not_of(
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "0123456789_-./:,=+@%") == std::string_view::npos;
  if (is_plain && !word.empty()) return std::string(word);
  std::string text = "'";
  for (const char c : word) {
    c == '\'' ? text += "'\\''" : text += c;
  }
  text += '\'';
  return text;
}

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

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> variables;
  for (const std::string& variable : own_variables()) {
    const size_t equals = std::min(variable.find('='), variable.size());
    variables.emplace(variable.substr(0, equals),
                      variable.substr(std::min(equals + 1, variable.size())));
  }
  return variables;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

StartedProgram::StartedProgram(const std::vector<std::string>& words,
                               const std::vector<std::string>& environment, bool answers)
    : name_(words[0]), errors_(memfd_create("errors", MFD_CLOEXEC)) {
  // This process closes the program's ends, and the program closes ours.
  std::array<int, 2> input{-1, -1};
  std::array<int, 2> output{-1, -1};
  // A socket, unlike a pipe, can be written to without a signal and without waiting.
  const bool are_made =
      errors_ >= 0 && pipe2(output.data(), O_CLOEXEC) == 0 &&
      (!answers || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input.data()) == 0);
  const int failure =
      are_made ? spawn(process_, words, environment, input[0], output[1], errors_) : errno;
  for (const int end : {input[0], output[1]}) {
    if (end >= 0) close(end);
  }
  to_ = input[1];
  from_ = output[0];
  if (failure == 0) return;
  process_ = -1;
  end();
  throw std::system_error(failure, std::generic_category(), "cannot start " + name_);
}

void StartedProgram::end() {
  for (int* end : {&to_, &from_, &errors_}) {
    if (*end >= 0) close(std::exchange(*end, -1));
  }
  if (process_ < 0) return;
  kill(-process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
}

std::string StartedProgram::errors(size_t most_bytes) const {
  struct stat status {};
  fstat(errors_, &status);
  std::string text(std::min(most_bytes, static_cast<size_t>(status.st_size)), '\0');
  text.resize(
      static_cast<size_t>(std::max<ssize_t>(0, pread(errors_, text.data(), text.size(), 0))));
  return text;
}

// Waits until the process has ended and sets its waitpid status; false if the deadline comes first.
bool StartedProgram::wait_until(Time deadline, int& status) const {
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
  bool writes = true;
  while (writes && is_ready(from_, POLLIN, deadline)) writes = read_some(from_, result.output);
  result.timed_out = writes || !wait_until(deadline, status);
  if (result.timed_out) {
    kill(-process_, SIGKILL);
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  process_ = -1;
  result.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.error = errors(std::numeric_limits<size_t>::max());
  return result;
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
    if (count < 0) break;  // it has ended, so reading its answer fails below
    sent += static_cast<size_t>(count);
  }
  size_t end = 0;
  for (size_t looked = 0; (end = heard_.find('\n', looked)) == std::string::npos;) {
    looked = heard_.size();
    wait_for(from_, POLLIN);
    if (!read_some(from_, heard_)) {
      constexpr size_t kMostOfErrors = 2000;
      std::string text = errors(kMostOfErrors);
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
