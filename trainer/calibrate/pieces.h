#pragma once

#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"
#include "trainer/backend/backend.h"
#include "trainer/calibrate/timed_work.h"
#include "trainer/comm/process_group.h"

// The kinds of work in a step, each with its timing.
namespace fsdp {

// The number of blocks that are timed for all.
inline constexpr int64_t kDepth = 2;
ModelConfig few_blocks(const ModelConfig& config);

// Times modules: a few blocks between the model's first and last modules, without other ranks, at
// several numbers and lengths of rows.
std::vector<WorkTime> module_times(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                                   ProcessGroup& world);

// Times work on flat tensors: the optimizer's step, the norm, clipping, conversions, copies.
std::vector<WorkTime> tensor_times(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                                   ProcessGroup& world);

// Times collectives in the groups of the run's strategy.
std::vector<WorkTime> collective_times(const RunSpec& spec, const ModelConfig& config,
                                       Backend& backend, ProcessGroup& world);

// Returns the number of elements in the largest module, the largest unit of one block.
int64_t largest_module_numel(const ModelConfig& config);

// Returns six sizes, from a thousandth of `largest` to `largest`.
std::vector<int64_t> sizes_up_to(int64_t largest);

}  // namespace fsdp
