#include <catch2/catch.hpp>

#include "runner/run/predictions.h"

namespace fsdp {
namespace {

RunPlan planned(int64_t backward_bytes, int64_t evaluation_bytes) {
  RunPlan plan;
  plan.phases = {{MemoryPhase::kForward, 5},
                 {MemoryPhase::kBackward, backward_bytes},
                 {MemoryPhase::kEvaluation, evaluation_bytes}};
  plan.memory_allocated_bytes_max = std::max(backward_bytes, evaluation_bytes) + 1;
  plan.step_time_ms = 425;
  return plan;
}

TEST_CASE("what is predicted is what ranks report: the peak of steps") {
  CHECK(prediction_of(planned(20, 10)).memory_allocated_bytes_predicted == 21);
  CHECK(prediction_of(planned(20, 30)).memory_allocated_bytes_predicted == 20);
}

TEST_CASE("a step's time is predicted only by what was measured on the device") {
  RunPlan plan = planned(20, 10);
  CHECK_FALSE(prediction_of(plan).step_time_ms_predicted);
  plan.communication_exposed_ms = 0;
  CHECK(prediction_of(plan).step_time_ms_predicted == 425);
}

}  // namespace
}  // namespace fsdp
