#include "runner/run/predictions.h"

#include <algorithm>

namespace fsdp {
namespace {

bool is_of_a_step(MemoryPhase phase) {
  return phase == MemoryPhase::kForward || phase == MemoryPhase::kBackward ||
         phase == MemoryPhase::kOptimizer;
}

// Returns the peak of the steps. The plan has the allocator's peak, with rounded sizes, only for
// the whole run. If that peak is in another phase, returns the bytes that the steps request.
int64_t peak_of_steps(const RunPlan& plan) {
  int64_t of_steps = 0;
  int64_t of_all = 0;
  for (const PhasePlan& phase : plan.phases) {
    of_all = std::max(of_all, phase.memory_requested_bytes_max);
    if (is_of_a_step(phase.phase)) of_steps = std::max(of_steps, phase.memory_requested_bytes_max);
  }
  return of_steps > 0 && of_steps < of_all ? of_steps : plan.memory_allocated_bytes_max;
}

}  // namespace

Prediction prediction_of(const RunPlan& plan) {
  const bool is_calibrated = plan.communication_exposed_ms.has_value();
  return {.memory_allocated_bytes_predicted = peak_of_steps(plan),
          .step_time_ms_predicted = is_calibrated ? plan.step_time_ms : std::nullopt};
}

}  // namespace fsdp
