#pragma once

#include <span>
#include <string>
#include <vector>

#include "runner/store/store.h"

namespace fsdp {

// A run as `fsdp-run status` shows it. Figures of a run that is under way are those of its newest
// steps.
struct RunState {
  StatusRow row;
  bool runner_is_gone = false;  // it runs as far as is recorded, but its runner is not there
  std::optional<double> seconds_left{};
};

// Brings the figures of runs that are under way up to date.
std::vector<RunState> current_states(const Store& store, std::span<const StatusRow> rows);

// "5 runs: 3 finished, 1 running, 1 planned"
std::string status_counts(std::span<const StatusRow> rows);

// The rows to show of `rows`, in their order: all when they are at most `most`, else those that run
// and then the ones that ended last.
std::vector<StatusRow> rows_of_interest(std::span<const StatusRow> rows, size_t most);

// Headings and a line per run; times are local ones.
std::vector<std::string> status_table(std::span<const RunState> runs, bool colour);

}  // namespace fsdp
