#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runner/progress/run_progress.h"

namespace fsdp {

struct TerminalSize {
  size_t columns = 80;
  size_t lines = 24;
};

// What a terminal shows of a sweep while it runs: a row per run, in the order of `runs`, and a line
// that counts them and says how much time is left. Where they are more than fit: those that run,
// the ones that ended last, and the next ones. `ended_order` has the indices of runs that ended, in
// that order. No line is wider than the terminal less one column, nor are they so many that it
// scrolls; on a narrow one a row loses figures before its name. Pure.
std::vector<std::string> live_view(std::span<const RunProgress> runs,
                                   std::span<const size_t> ended_order, TerminalSize size,
                                   ProgressClock::time_point now, bool colour);

}  // namespace fsdp
