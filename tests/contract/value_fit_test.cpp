#include "contract/plan/run_plan.h"

#include <catch2/catch.hpp>

namespace fsdp {
namespace {

TEST_CASE("a value is too large if its tensors alone are, where these never shrink") {
  const std::string key = "batch.size_per_rank";
  RunSpec spec;
  spec.batch.gradient_accumulation_steps = 1;
  RunPlan plan;
  plan.memory_allocated_bytes_max = 90;
  plan.memory_limit_bytes = 80;
  plan.fit = Fit::kDoesNotFit;
  CHECK(value_fit(plan, spec, key) == ValueFit::kTooLarge);
  CHECK(value_fit(plan, spec, "model.config.num_hidden_layers") == ValueFit::kDoesNotFit);
  spec.data.rows = RowFill::kPadToLongest;
  CHECK(value_fit(plan, spec, key) == ValueFit::kDoesNotFit);

  spec.data.rows = RowFill::kPad;
  spec.batch.gradient_accumulation_steps = 2;
  CHECK(value_fit(plan, spec, key) == ValueFit::kDoesNotFit);
  CHECK(value_fit(plan, spec, "data.sequence_length") == ValueFit::kTooLarge);

  spec.batch.gradient_accumulation_steps = 1;
  spec.device = DeviceKind::kCuda;
  CHECK(value_fit(plan, spec, key) == ValueFit::kTooLarge);
  plan.memory_allocated_bytes_max = 70;
  plan.memory_reserved_bytes_max = 90;
  plan.memory_device_bytes_max = 95;
  // Only the allocator's surplus does not fit.
  CHECK(value_fit(plan, spec, key) == ValueFit::kDoesNotFit);
  plan.memory_allocated_bytes_max = 76;
  CHECK(value_fit(plan, spec, key) == ValueFit::kTooLarge);  // tensors and context do not fit
  spec.train.deterministic = true;
  CHECK(value_fit(plan, spec, key) == ValueFit::kDoesNotFit);
  plan.fit = Fit::kTight;
  CHECK(value_fit(plan, spec, key) == ValueFit::kFits);
}

}  // namespace
}  // namespace fsdp
