#pragma once

#include "runner/progress/live_view.h"
#include "runner/progress/progress.h"

namespace fsdp {

// Draws the live view on the terminal of stderr, below the messages. It is drawn a few times a
// second, in the terminal's current size. Runs that fail have a message too.
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
  // Return the text that removes the view from the terminal, and the text that draws it.
  std::string cleared();
  std::string drawn(ProgressClock::time_point now);

  bool colour_;
  std::vector<size_t> drawn_widths_;  // of the lines on the terminal
  ProgressClock::time_point drawn_at_{};
};

// Returns the number of rows that lines of these widths take on a terminal of `columns` columns.
// Lines wrap if the terminal has become narrower.
size_t rows_taken(std::span<const size_t> widths, size_t columns);

}  // namespace fsdp
