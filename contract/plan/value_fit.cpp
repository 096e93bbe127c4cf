// Judges from a plan if a value fits. It is too large only if no larger value can fit either.
#include <algorithm>
#include <array>

#include "contract/plan/run_plan.h"

namespace fsdp {
namespace {

// True if a larger value of the key only makes tensors larger. Other keys, such as the number of
// layers or ranks, also change the units and their padding.
bool is_size_of_tensors(const std::string& key) {
  constexpr std::array kSizes{"batch.size_per_rank", "evaluation.size_per_rank",
                              "data.sequence_length", "data.input_length", "data.target_length"};
  return std::ranges::find(kSizes, key) != kSizes.end();
}

// True if memory always rises with the key's value. It may fall in these cases:
// - Rows are not all padded to full length.
// - A larger micro-batch of the same total accumulates less often, and may keep fewer gradients.
// - Deterministic flash attention may need less memory for more sequences.
bool always_rises(const RunSpec& spec, const std::string& key) {
  const bool may_accumulate_less =
      key == "batch.size_per_rank" && spec.batch.gradient_accumulation_steps != 1;
  const bool is_ordered = spec.device == DeviceKind::kCuda && spec.train.deterministic;
  return is_size_of_tensors(key) && spec.data.rows == RowFill::kPad && !may_accumulate_less &&
         !is_ordered;
}

// True if the tensors alone fit. A GPU's allocator takes more than they need, but this surplus may
// be smaller for a larger value.
bool tensors_fit(const RunPlan& plan, const RunSpec& spec) {
  if (spec.device == DeviceKind::kCpu) return plan.fit != Fit::kDoesNotFit;
  const int64_t beside_tensors = plan.memory_device_bytes_max - plan.memory_reserved_bytes_max;
  return !plan.memory_limit_bytes ||
         plan.memory_allocated_bytes_max + beside_tensors <= *plan.memory_limit_bytes;
}

}  // namespace

ValueFit value_fit(const RunPlan& plan, const RunSpec& spec, const std::string& key) {
  if (plan.fit != Fit::kDoesNotFit) return ValueFit::kFits;
  const bool is_too_large = always_rises(spec, key) && !tensors_fit(plan, spec);
  return is_too_large ? ValueFit::kTooLarge : ValueFit::kDoesNotFit;
}

}  // namespace fsdp
