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

// Returns the size of stderr's terminal, or the default size.
TerminalSize terminal_size();
// True if stderr is a terminal that can move its cursor.
bool can_draw();
// Erases the line of the cursor.
inline constexpr std::string_view kErasedLine = "\r\033[K";

// Returns the view of a sweep: a row per run, in the order of `runs`, and a line with counts and
// the time left. If not all runs fit, the rows are the last ones that ended, the running ones, and
// the next ones. `ended_order` has the indices of ended runs in the order of their ends. Lines
// leave the terminal's last column free, and never scroll it. On a narrow terminal a row loses
// figures before its name. Pure.
std::vector<std::string> live_view(std::span<const RunProgress> runs,
                                   std::span<const size_t> ended_order, TerminalSize size,
                                   ProgressClock::time_point now, bool colour);

// Shows the progress of tokenizing a file, in one line of stderr's terminal. Shows nothing if
// stderr is no terminal. The destructor erases the line.
class PrepareBar {
 public:
  explicit PrepareBar(std::string name);
  ~PrepareBar();
  PrepareBar(const PrepareBar&) = delete;
  PrepareBar& operator=(const PrepareBar&) = delete;

  // 0 of 0 bytes: another process tokenizes the file.
  void show(int64_t read_bytes, int64_t all_bytes);

 private:
  std::string name_;
  bool has_terminal_;
};

// "games.csv [######              ]  30 %".
std::string prepare_bar_text(const std::string& name, int64_t read_bytes, int64_t all_bytes);

}  // namespace fsdp
