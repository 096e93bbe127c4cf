#pragma once

#include "runner/progress/live_view.h"
#include "runner/progress/progress.h"

namespace fsdp {

// The live view on the terminal that stderr is, below what was said; drawn anew a few times a
// second in the size that the terminal then has. Runs that fail are said, too.
class LiveProgress : public Progress {
 public:
  LiveProgress();
  ~LiveProgress() override;

  void say(std::string_view line) override;
  void warn(std::string_view line) override { say(line); }
  // Clears the live view.
  void close() override;

 private:
  void show(const RunProgress& run) override;
  void update(ProgressClock::time_point now) override;
  // What the terminal is sent to take the view away, and to draw it.
  std::string cleared();
  std::string drawn(ProgressClock::time_point now);

  bool colour_;
  std::vector<size_t> drawn_widths_;  // of the lines on the terminal
  ProgressClock::time_point drawn_at_{};
};

// The rows that lines of these widths take on a terminal of so many columns: one that has become
// narrower since breaks them.
size_t rows_taken(std::span<const size_t> widths, size_t columns);

}  // namespace fsdp
