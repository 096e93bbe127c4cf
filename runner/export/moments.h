#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runner/store/store.h"

namespace fsdp {

// What was measured at a moment of a run. A name is a group and a figure: "train/loss",
// "time/step_time_ms", "memory/allocated_bytes_max", "validation/loss",
// "device/gpu:0/power_watts".
struct Moment {
  int64_t step = 0;  // of a sample of a device: of the last step done by then, 0 before the first
  int64_t time_unix_ms = 0;
  std::vector<std::pair<std::string, double>> figures{};
};

// Steps, evaluations and samples of devices of the attempt, in the order of their time, and before
// them those of earlier attempts up to the checkpoint that it went on from. A step takes as long as
// its slowest rank, and memory is that of the rank with most. What was not measured or not finite
// is left out.
std::vector<Moment> moments_of(const Store& store, int64_t run_id, int attempt);

}  // namespace fsdp
