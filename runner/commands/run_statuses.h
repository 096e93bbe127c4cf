#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/store/store.h"

// What `fsdp-run status` shows.
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

// A line per doubled key of runs in jobs of Slurm whose search may go on: who submits the run of
// its next value, and when. The rows are those of whole experiments.
std::string doubling_outlook(std::span<const ComparisonRow> rows);

// What the newest samples say of a node.
struct NodeState {
  std::string host;
  DeviceSample node{};               // processors and memory; nothing is known until it was sampled
  std::vector<DeviceSample> gpus{};  // in the order of their numbers
  int64_t sampled_unix_ms = 0;       // the newest of these
};

// The nodes of runs that are under way, by their names. Of a node of several runs the newest sample
// of each device counts.
std::vector<NodeState> node_states(const Store& store, std::span<const RunState> runs);

// A line per node and, below it, its GPUs, so many a line as `width` allows; 0: of any width.
std::vector<std::string> node_table(std::span<const NodeState> nodes, size_t width,
                                    int64_t now_unix_ms);

}  // namespace fsdp
