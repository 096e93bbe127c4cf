#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
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

// A program at work, looked up on PATH and started without a shell: `words` are its name and its
// arguments, its input is empty, its environment is `environment` (NAME=value). It has a process
// group of its own, so that a terminal's Ctrl-C leaves it alone.
class StartedProgram {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Throws std::system_error when the program cannot be started (ENOENT: it is not there).
  StartedProgram(const std::vector<std::string>& words,
                 const std::vector<std::string>& environment);
  // Kills the group, if it was not waited for.
  ~StartedProgram();
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;

  // Waits for its end; where `deadline` comes first, the group is killed. To be called once.
  ProgramResult wait(Time deadline);

 private:
  bool read_all(Time deadline, ProgramResult& result);
  bool wait_until(Time deadline, int& status);

  std::array<int, 2> ends_{-1, -1};  // of pipes: its output, its errors
  pid_t process_ = -1;               // -1: it has ended
};

// A program that answers each line of its input with a line. It is ended with the object.
class Conversation {
 public:
  // Throws std::system_error when it cannot be started.
  Conversation(const std::vector<std::string>& words, const std::vector<std::string>& environment);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // Throws std::runtime_error when it has not answered in time, and, with what it wrote to its
  // errors, when the program has ended.
  std::string ask(std::string_view line, std::chrono::milliseconds patience);

 private:
  void end();

  std::string name_;
  pid_t process_ = -1;
  int to_ = -1;
  int from_ = -1;
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, CloseFile> errors_;
  std::string heard_;  // after the last answer
};

// As execve() takes its arguments and its environment; valid as long as `words` are.
std::vector<char*> pointers_to(const std::vector<std::string>& words);

// This process becomes that program, looked up on PATH. Throws std::system_error when it cannot.
[[noreturn]] void become_program(const std::vector<std::string>& words);

// Runs a program to its end, or for `time_limit`.
ProgramResult run_program(const std::vector<std::string>& words,
                          const std::vector<std::string>& environment,
                          std::chrono::milliseconds time_limit);

}  // namespace fsdp
