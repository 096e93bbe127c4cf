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
  std::optional<double> seconds_left{};      // of the run, at its present speed
  std::optional<double> job_seconds_left{};  // until its job's time limit

  bool job_ends_first() const {
    return job_seconds_left && (!seconds_left || *job_seconds_left < *seconds_left);
  }
};

// Brings the figures of runs that are under way up to date.
std::vector<RunState> current_states(const Store& store, std::span<const StatusRow> rows,
                                     int64_t now_unix_ms);

// "5 runs: 3 finished, 1 running, 1 planned"
std::string status_counts(std::span<const StatusRow> rows);

// The rows to show of `rows`, in their order: all when they are at most `most`, else those that
// run, those that wait in a job, and then the ones that ended last.
std::vector<StatusRow> rows_of_interest(std::span<const StatusRow> rows, size_t most);

// Headings and a line per run; times are local ones. A time left with a * is that of the job. In at
// most `width` columns where that can be; 0: of any width.
std::vector<std::string> status_table(std::span<const RunState> runs, size_t width, bool colour);

}  // namespace fsdp
