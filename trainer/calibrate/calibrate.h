#pragma once

#include "contract/families/model_config.h"
#include "contract/plan/calibration.h"
#include "contract/spec/run_spec.h"
#include "trainer/backend/backend.h"
#include "trainer/comm/process_group.h"

namespace fsdp {

// Times the pieces of work in a step of `spec`, with 1 to batch.size_per_rank rows. All ranks of
// `world` call it at the same time. `spec` is resolved, and `config` is its model. Each time is the
// median of `rounds` rounds, because disturbances of a machine last for seconds. The caller sets
// the result's device.
Calibration calibrate(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                      ProcessGroup& world, int rounds);

}  // namespace fsdp
