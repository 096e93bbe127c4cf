#pragma once

#include <map>

#include "runner/progress/progress.h"

namespace fsdp {

// Prints lines to stderr: messages, and the start and end of each run. Between them, a run has a
// line after at least 10 % of its steps and 10 s. A long wait has a line too.
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

// Prints only warnings and the ends of failed runs.
class QuietProgress : public Progress {
 public:
  void say(std::string_view) override {}
  void warn(std::string_view line) override;

 private:
  void show(const RunProgress& run) override;
  void update(ProgressClock::time_point) override {}
};

}  // namespace fsdp
