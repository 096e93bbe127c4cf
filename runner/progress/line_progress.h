#pragma once

#include <map>

#include "runner/progress/progress.h"

namespace fsdp {

// Lines on stderr: what is said, a run's start and end, and between them one when 10 % and 10 s
// have passed since the last.
class LineProgress : public Progress {
 public:
  void say(std::string_view line) override;
  void warn(std::string_view line) override { say(line); }
  void refresh() override;

 private:
  void show(const RunProgress& run) override;

  struct LastLine {
    ProgressClock::time_point time;
    int64_t step = 0;
  };
  std::map<std::string, LastLine> last_lines_;  // of the runs under way, by their point
};

// Warnings, and the ends of runs that failed.
class QuietProgress : public Progress {
 public:
  void say(std::string_view) override {}
  void warn(std::string_view line) override;
  void refresh() override {}

 private:
  void show(const RunProgress& run) override;
};

}  // namespace fsdp
