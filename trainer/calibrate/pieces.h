#pragma once

#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"
#include "trainer/backend/backend.h"
#include "trainer/calibrate/timed_work.h"
#include "trainer/comm/process_group.h"

// Functions that time the pieces of a step, one for each kind of work.
namespace fsdp {

// The number of blocks that are timed. Their times stand for all blocks of the model.
inline constexpr int64_t kDepth = 2;
ModelConfig few_blocks(const ModelConfig& config);

// Times the steps of a model of kDepth blocks, with several numbers and lengths of rows. The steps
// have no collectives.
std::vector<WorkTime> module_times(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                                   ProcessGroup& world);

// Times work on flat tensors: the optimizer's step, the norm, clipping, conversions, copies.
std::vector<WorkTime> tensor_times(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                                   ProcessGroup& world);

// Times collectives in the groups of the run's strategy.
std::vector<WorkTime> collective_times(const RunSpec& spec, const ModelConfig& config,
                                       Backend& backend, ProcessGroup& world);

// Returns the number of elements in the largest module.
int64_t largest_module_numel(const ModelConfig& config);

// Returns six sizes, from 1/1024 of `largest` to `largest`. Each is four times the one before.
std::vector<int64_t> sizes_up_to(int64_t largest);

}  // namespace fsdp
