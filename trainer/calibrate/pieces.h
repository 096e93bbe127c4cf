#pragma once

#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"
#include "trainer/backend/backend.h"
#include "trainer/calibrate/timed_work.h"
#include "trainer/comm/process_group.h"

// The kinds of work that a step is made of, as it is timed.
namespace fsdp {

// So many blocks stand for all.
inline constexpr int64_t kDepth = 2;
ModelConfig few_blocks(const ModelConfig& config);

// Modules: a few blocks between what begins and ends the model, without other ranks, at some
// numbers of rows and lengths of them.
std::vector<WorkTime> module_times(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                                   ProcessGroup& world);

// What is done to flat tensors: the optimizer's step, the norm, clipping, conversions, copies.
std::vector<WorkTime> tensor_times(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                                   ProcessGroup& world);

// What ranks do together, in the groups that the run's strategy makes.
std::vector<WorkTime> collective_times(const RunSpec& spec, const ModelConfig& config,
                                       Backend& backend, ProcessGroup& world);

// Elements of the largest module, the longest that a unit of one block has.
int64_t largest_module_numel(const ModelConfig& config);

// Six, from a thousandth of it to `largest`.
std::vector<int64_t> sizes_up_to(int64_t largest);

}  // namespace fsdp
