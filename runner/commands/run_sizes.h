#pragma once

#include <cstdint>

#include "contract/spec/run_spec.h"

// Sizes that follow from a run's specification without the trainer.
namespace fsdp {

int64_t accumulation(const RunSpec& spec);

// The bytes that a rank keeps on its device between steps, before parts are rounded up. A run needs
// at least this. Only a plan knows activations, gathered units and buffers.
struct KeptBytes {
  double parameters = 0;  // 0: on the host; this holds for all three
  double gradients = 0;
  double optimizer_state = 0;
};
KeptBytes kept_bytes(const RunSpec& spec);

// Returns the most bytes of checkpoints that exist at the same time.
double bytes_on_disk(const RunSpec& spec);

}  // namespace fsdp
