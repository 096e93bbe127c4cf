#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

// git at work in a folder that may be a stranger's, whose configuration must start nothing: hooks,
// file system monitors, pagers and fetching are off, and so are variables of the environment that
// name another repository. Filters are left to who asks. Without git it has ended, badly.
class GitProgram {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Answer {
    int exit_status = 0;
    std::string text;
  };

  GitProgram(const std::filesystem::path& folder, const std::vector<std::string>& words);
  // Ends it.
  ~GitProgram();
  GitProgram(const GitProgram&) = delete;
  GitProgram& operator=(const GitProgram&) = delete;

  // What it has printed, once it has ended; absent: not by `deadline`, or not by itself. To be
  // called once.
  std::optional<Answer> answer(Time deadline);

 private:
  int output_ = -1;     // a pipe's end, -1: none
  pid_t process_ = -1;  // -1: none
};

}  // namespace fsdp
