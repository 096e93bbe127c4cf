#pragma once

#include "contract/families/model_config.h"
#include "contract/plan/calibration.h"
#include "contract/spec/run_spec.h"
#include "trainer/backend/backend.h"
#include "trainer/comm/process_group.h"

namespace fsdp {

// Times the parts of a step of `spec`, with up to its batch.size_per_rank rows. All ranks of
// `world` call it at the same time. `spec` is resolved; `config` is its model's. Disturbances of a
// machine last for seconds, so the median of several rounds avoids them. Leaves the result's device
// empty.
Calibration calibrate(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                      ProcessGroup& world, int rounds);

}  // namespace fsdp
