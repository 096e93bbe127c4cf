#pragma once

#include <cstdint>

#include "contract/spec/run_spec.h"

// What follows from a run's specification without the trainer.
namespace fsdp {

int64_t accumulation(const RunSpec& spec);

// What a rank keeps from step to step on its device, but for what rounds its parts up: the least
// that a run takes. Activations, gathered units and buffers are a plan's.
struct KeptBytes {
  double parameters = 0;  // 0: on the host, as for the others
  double gradients = 0;
  double optimizer_state = 0;
};
KeptBytes kept_bytes(const RunSpec& spec);

// Of the checkpoints that are there at once, at the most.
double bytes_on_disk(const RunSpec& spec);

}  // namespace fsdp
