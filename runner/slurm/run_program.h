#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace fsdp {

struct ProgramResult {
  int exit_status = 0;  // 128 + N when signal N ended it
  bool timed_out = false;
  std::string output;
  std::string error;
};

// Runs a program, looked up on PATH, without a shell: `words` are its name and its arguments, its
// input is empty, its environment is `environment` (NAME=value). It has a process group of its own,
// so that a terminal's Ctrl-C leaves it alone; when `time_limit` has passed, the group is killed.
// Throws std::system_error when the program cannot be started (ENOENT: it is not there).
ProgramResult run_program(const std::vector<std::string>& words,
                          const std::vector<std::string>& environment,
                          std::chrono::milliseconds time_limit);

}  // namespace fsdp
