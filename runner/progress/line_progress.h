#pragma once

#include <map>

#include "runner/progress/progress.h"

namespace fsdp {

// Lines on stderr: what is said, a run's start and end, and between them one when 10 % and 10 s
// have passed since the last, or when no step is done for long.
class LineProgress : public Progress {
 public:
  void say(std::string_view line) override;
  void warn(std::string_view line) override { say(line); }

 private:
  void show(const RunProgress& run) override;
  void update(ProgressClock::time_point now) override;
  void show_waits(std::span<const RunThatWaits> runs, ProgressClock::time_point now) override;

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

 private:
  void show(const RunProgress& run) override;
  void update(ProgressClock::time_point) override {}
};

}  // namespace fsdp
