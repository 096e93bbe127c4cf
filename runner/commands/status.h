#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/store/store.h"

// The tables that `fsdp-run status` shows.
namespace fsdp {

// A run as `fsdp-run status` shows it. A running run has the figures of its newest steps.
struct RunState {
  StatusRow row;
  bool runner_is_gone = false;               // recorded as running, but its runner is not there
  std::optional<double> seconds_left{};      // of the run, at its present speed
  std::optional<double> job_seconds_left{};  // until its job's time limit

  bool job_ends_first() const {
    return job_seconds_left && (!seconds_left || *job_seconds_left < *seconds_left);
  }
};

// Returns the states of the runs, with up-to-date figures of running runs.
std::vector<RunState> current_states(const Store& store, std::span<const StatusRow> rows,
                                     int64_t now_unix_ms);

// "5 runs: 3 finished, 1 running, 1 planned"
std::string status_counts(std::span<const StatusRow> rows);

// Returns at most `most` of the rows, in their order. Running runs come first, then runs that wait
// in a job, then the runs that ended last.
std::vector<StatusRow> rows_of_interest(std::span<const StatusRow> rows, size_t most);

// Returns headings and a line per run, with local times. A time left with a * belongs to the job.
// The lines have at most `width` columns if that is possible; 0: any width.
std::vector<std::string> status_table(std::span<const RunState> runs, size_t width, bool colour);

// Returns a line per doubled key of runs in Slurm jobs, if its search may go on. The line tells who
// submits the run of the next value, and when. The rows must come from whole experiments.
std::string doubling_outlook(std::span<const ComparisonRow> rows);

// A node's state according to the newest samples.
struct NodeState {
  std::string host;
  DeviceSample node{};               // processors and memory; unknown before the first sample
  std::vector<DeviceSample> gpus{};  // in the order of their numbers
  int64_t sampled_unix_ms = 0;       // the newest of these
};

// Returns the nodes of running runs, sorted by name. If several runs use a node, the newest sample
// of each device counts.
std::vector<NodeState> node_states(const Store& store, std::span<const RunState> runs);

// Returns a line per node and, below it, as many GPUs a line as fit in `width`; 0: any width.
std::vector<std::string> node_table(std::span<const NodeState> nodes, size_t width,
                                    int64_t now_unix_ms);

}  // namespace fsdp
