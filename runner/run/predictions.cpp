#include "runner/run/predictions.h"

#include <algorithm>
#include <limits>

#include "contract/spec/run_spec.h"
#include "contract/text/config_error.h"
#include "runner/experiment/largest_value.h"

namespace fsdp {

namespace {

// Counts the runs of a search in which all values up to `largest` fit.
int64_t runs_of(Doubling search, int64_t largest) {
  int64_t runs = 0;
  while (const auto value = search.next()) {
    ++runs;
    *value <= largest ? search.fits(*value) : search.does_not_fit(*value);
  }
  return runs;
}

bool has_limit(const RunSpec& spec) {
  return spec.device == DeviceKind::kCuda || memory_limit_bytes(spec) > 0;
}

}  // namespace

std::optional<int64_t> expected_largest(const std::shared_ptr<const DoublingSeries>& series,
                                        const PredictRun& predict) {
  const auto fits_at = [&](int64_t value) -> std::optional<ValueFit> {
    if (!series->is_in_range(value)) return std::nullopt;
    try {
      const RunSpec spec = doubled_run(series, value).spec;
      const auto plan = has_limit(spec) ? predict(spec) : std::nullopt;
      if (!plan || plan->fit == Fit::kUnknown) return std::nullopt;
      return value_fit(*plan, spec, series->key());
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  };
  Doubling search = series->search();
  while (const auto value = search.next()) {
    const auto fit = fits_at(*value);
    if (!fit) return std::nullopt;
    fit == ValueFit::kFits ? search.fits(*value) : search.does_not_fit(*value);
  }
  const std::optional<int64_t> largest = search.largest_that_fits();
  if (!largest || !series->is_refined()) return largest;
  return largest_beside(*largest, std::numeric_limits<int64_t>::max(), fits_at);
}

int64_t runs_saved(const DoublingSeries& series, int64_t largest) {
  Doubling expecting = series.search();
  expecting.expect_to_be_largest(largest);
  return runs_of(series.search(), largest) - runs_of(std::move(expecting), largest);
}

namespace {

bool is_of_a_step(MemoryPhase phase) {
  return phase == MemoryPhase::kForward || phase == MemoryPhase::kBackward ||
         phase == MemoryPhase::kOptimizer;
}

// Returns the peak of the steps. If another phase has a higher peak, the result is the sum of the
// requested sizes, which a GPU's allocator rounds up.
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
