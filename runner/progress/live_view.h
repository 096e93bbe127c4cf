#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/progress/run_progress.h"

namespace fsdp {

struct TerminalSize {
  size_t columns = 80;
  size_t lines = 24;
};

// Returns the size of stderr's terminal, or 80 x 24 if it is not known.
TerminalSize terminal_size();

// Returns the number of rows that lines of these widths take on a terminal of `columns` columns.
// Lines wrap if the terminal has become narrower.
size_t rows_taken(std::span<const size_t> widths, size_t columns);

// A line of stderr's terminal that is drawn repeatedly. The destructor erases it.
class TerminalLine {
 public:
  // True if stderr is a terminal that can erase.
  static bool is_possible();

  TerminalLine() = default;
  ~TerminalLine();
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  // Replaces the line by `messages`, whole lines, and `text`.
  void draw(std::string_view messages, std::string_view text);

 private:
  bool is_drawn_ = false;
};

// "[=====>      ]"
std::string bar(double part, size_t width);

// Returns the view of a sweep: a row per run, in the order of `runs`, and a line with counts and
// the time left. If not all runs fit, the rows are the runs that ended last, the running ones, and
// the next ones. `ended_order` has the indices of ended runs in the order of their ends. Lines
// leave the terminal's last column free, and never scroll it. On a narrow terminal a row loses
// figures before its name. Pure.
std::vector<std::string> live_view(std::span<const RunProgress> runs,
                                   std::span<const size_t> ended_order, TerminalSize size,
                                   ProgressClock::time_point now, bool colour);

// Shows the progress of tokenizing a file, in one line of stderr's terminal. Shows nothing if
// stderr is not a terminal.
class PrepareBar {
 public:
  explicit PrepareBar(std::string name) : name_(std::move(name)) {}

  // 0 of 0 bytes: another process tokenizes the file.
  void show(int64_t read_bytes, int64_t all_bytes);

 private:
  std::string name_;
  TerminalLine line_;
};

}  // namespace fsdp
