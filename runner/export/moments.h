#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runner/store/store.h"

namespace fsdp {

// The figures that were measured at a moment of a run. A name is a group and a figure:
// "train/loss", "time/step_time_ms", "validation/loss", "memory/allocated_bytes_max",
// "device/gpu:0/power_watts".
struct Moment {
  int64_t step = 0;  // of a device sample: the last step done by then; 0: none yet
  int64_t time_unix_ms = 0;
  std::vector<std::pair<std::string, double>> figures{};
};

// Returns the attempt's steps, evaluations and device samples, ordered by time. If the attempt
// resumed from a checkpoint, earlier attempts come before it: their steps and evaluations up to the
// checkpoint, and all their device samples. A step has the times of its slowest rank. Its memory is
// the largest of any rank. Figures that are not measured or not finite are left out.
std::vector<Moment> moments_of(const Store& store, int64_t run_id, int attempt);

}  // namespace fsdp
