#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/commands/run_statuses.h"
#include "runner/store/store.h"

namespace fsdp {

// What the newest samples say of a node.
struct NodeState {
  std::string host;
  DeviceSample node;               // processors and memory; nothing is known until it was sampled
  std::vector<DeviceSample> gpus;  // in the order of their numbers
  int64_t sampled_unix_ms = 0;     // the newest of these
};

// The nodes of runs that are under way, by their names. Of a node of several runs the newest sample
// of each device counts.
std::vector<NodeState> node_states(const Store& store, std::span<const RunState> runs);

// A line per node and, below it, its GPUs, so many a line as `width` allows; 0: of any width.
std::vector<std::string> node_table(std::span<const NodeState> nodes, size_t width,
                                    int64_t now_unix_ms);

}  // namespace fsdp
