#pragma once

#include "contract/families/model_config.h"
#include "contract/plan/calibration.h"
#include "contract/spec/run_spec.h"
#include "trainer/backend/backend.h"
#include "trainer/comm/process_group.h"

namespace fsdp {

// Times what a step of `spec` is made of, with up to its batch.size_per_rank rows; all ranks of
// `world` call it at the same time. `spec` is resolved, `config` its model's. But for times it
// says nothing of the device.
Calibration calibrate(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                      ProcessGroup& world);

}  // namespace fsdp
