#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

struct ProgramResult {
  int exit_status = 0;  // 128 + N when signal N ended it
  bool timed_out = false;
  std::string output;
  std::string error;
};

// A running program, looked up on PATH and started without a shell. `words` are its name and its
// arguments, and `environment` its variables (NAME=value). It has its own process group, so a
// terminal's Ctrl-C does not reach it.
class StartedProgram {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Throws std::system_error if the program cannot be started (ENOENT: it is not there). Its input
  // is empty unless `answers` is true (see Conversation).
  StartedProgram(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                 bool answers = false);
  // Kills the group unless wait() was called.
  ~StartedProgram() { end(); }
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;

  // Waits until the program ends, or kills its group at `deadline`. Call it once.
  ProgramResult wait(Time deadline);

 protected:
  // Returns the first bytes of the program's error output, at most `most_bytes`.
  std::string errors(size_t most_bytes) const;

  std::string name_;
  int to_ = -1;    // a socket
  int from_ = -1;  // a pipe

 private:
  void end();
  bool wait_until(Time deadline, int& status) const;

  pid_t process_ = -1;  // -1: it has ended
  int errors_ = -1;     // a file in memory
};

// A program that answers each input line with a line. It ends with the object.
class Conversation : public StartedProgram {
 public:
  // Throws std::system_error if the program cannot be started.
  Conversation(const std::vector<std::string>& words, const std::vector<std::string>& environment)
      : StartedProgram(words, environment, /*answers=*/true) {}

  // Sends a line and returns the answer. Throws std::runtime_error if no answer comes in time, or
  // if the program has ended. In the second case the message includes the program's error output.
  std::string ask(std::string_view line, std::chrono::milliseconds patience);

 private:
  std::string heard_;  // output after the last answer
};

// The Python that runs this project's scripts: FSDP_PYTHON, else .venv/bin/python in the source
// folder (made by set-up), else python3 on PATH.
std::string python_program();

// The variables of this process, NAME=value.
std::vector<std::string> own_variables();
// The variables of this process, by name.
std::map<std::string, std::string> own_environment();

// Returns `word` as one word of a POSIX shell command. It may hold any byte except zero. A word
// without special characters stays as it is; others get single quotes.
std::string shell_quoted(std::string_view word);

// Returns pointers in the form that execve() expects; valid as long as `words` are.
std::vector<char*> pointers_to(const std::vector<std::string>& words);

// Replaces this process with a program, looked up on PATH. Throws std::system_error on failure.
[[noreturn]] void become_program(const std::vector<std::string>& words);

ProgramResult run_program(const std::vector<std::string>& words,
                          const std::vector<std::string>& environment,
                          std::chrono::milliseconds time_limit);

}  // namespace fsdp
