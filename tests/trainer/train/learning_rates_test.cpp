#include <catch2/catch.hpp>
#include <vector>

#include "trainer/train/schedule.h"

namespace fsdp::learning_rates_test {

ScheduleSpec schedule_of(ScheduleKind kind, int64_t warmup_steps = 0, double min_learning_rate = 0,
                         std::optional<int64_t> decay_steps = std::nullopt,
                         std::optional<int64_t> step_size = std::nullopt, double gamma = 0.1) {
  ScheduleSpec spec;
  spec.kind = kind;
  spec.warmup_steps = warmup_steps;
  spec.min_learning_rate = min_learning_rate;
  spec.decay_steps = decay_steps;
  spec.step_size = step_size;
  spec.gamma = gamma;
  return spec;
}

struct Case {
  double learning_rate;
  ScheduleSpec spec;
  std::vector<double> rates;  // of all steps
};

// The rates are from torch.optim.lr_scheduler of PyTorch 2.11, by the expressions in schedule.h.
// tests/parity/test_optimizers.py compares whole runs.
const std::vector<Case> kCases{
    {1, schedule_of(ScheduleKind::kLinear, 4), {0.2, 0.4, 0.6, 0.8}},  // ends within the warm-up
    {1, schedule_of(ScheduleKind::kCosine, 4), {0.2, 0.4, 0.6, 0.8}},
    {3e-4, schedule_of(ScheduleKind::kConstant), {0.0003, 0.0003, 0.0003, 0.0003}},
    {3e-4,
     schedule_of(ScheduleKind::kConstant, 3),
     {7.5e-05, 0.00015, 0.000225, 0.0003, 0.0003, 0.0003}},
    {2e-4,
     schedule_of(ScheduleKind::kLinear),
     {0.0002, 0.00017142857142857145, 0.0001428571428571429, 0.00011428571428571432,
      8.571428571428574e-05, 5.714285714285717e-05, 2.8571428571428584e-05}},
    {2e-4,
     schedule_of(ScheduleKind::kLinear, 3, 1e-5),
     {5e-05, 0.0001, 0.00015000000000000001, 0.0002, 0.00016833333333333335, 0.0001366666666666667,
      0.00010500000000000002, 7.333333333333336e-05, 4.1666666666666686e-05}},
    {1e-3,
     schedule_of(ScheduleKind::kCosine),
     {0.001, 0.0009619397662556434, 0.0008535533905932738, 0.0006913417161825451,
      0.0005000000000000001, 0.0003086582838174552, 0.0001464466094067263, 3.8060233744356646e-05}},
    {1e-3,
     schedule_of(ScheduleKind::kCosine, 0, 1e-4),
     {0.001, 0.0009397114317029975, 0.0007750000000000001, 0.00055, 0.00032500000000000015,
      0.0001602885682970026}},
    {1e-3,
     schedule_of(ScheduleKind::kCosine, 3, 2e-5),
     {0.00025, 0.0005, 0.00075, 0.001, 0.0009514747452721853, 0.0008155100029107794,
      0.000619035257638594, 0.00040096474236140593, 0.00020448999708922057, 6.852525472781466e-05}},
    {2e-4,
     schedule_of(ScheduleKind::kLinear, 0, 1e-5, 4),
     {0.0002, 0.0001525, 0.000105, 5.75e-05, 1e-05, 1e-05, 1e-05}},
    {1e-3,
     schedule_of(ScheduleKind::kCosine, 0, 0, 4),
     {0.001, 0.0008535533905932738, 0.0005, 0.0001464466094067263, 0, 0}},
    {1e-3, schedule_of(ScheduleKind::kCosine, 3, 1e-4, 2), {0.00025, 0.0005, 0.00075, 1e-4, 1e-4}},
    {0.5,
     schedule_of(ScheduleKind::kStep, 0, 0, {}, 3, 0.1),
     {0.5, 0.5, 0.5, 0.05, 0.05, 0.05, 0.005000000000000001, 0.005000000000000001,
      0.005000000000000001}},
    {0.5,
     schedule_of(ScheduleKind::kStep, 2, 0, {}, 3, 0.3),
     {0.16666666666666666, 0.3333333333333333, 0.5, 0.5, 0.5, 0.15, 0.15, 0.15, 0.045, 0.045}},
};

TEST_CASE("learning rates are PyTorch's") {
  for (const auto& [learning_rate, spec, rates] : kCases) {
    const auto steps = static_cast<int64_t>(rates.size());
    const LearningRateSchedule schedule(learning_rate, spec, steps, /*steps_per_epoch=*/1000);
    for (int64_t step = 1; step <= steps; ++step) {
      CAPTURE(name_of(spec.kind), spec.warmup_steps, spec.min_learning_rate, step);
      CHECK(schedule.learning_rate(step) == Approx(rates[step - 1]).epsilon(1e-12));
    }
  }
}

TEST_CASE("a warm-up from zero has transformers' rates") {
  ScheduleSpec spec = schedule_of(ScheduleKind::kLinear);
  spec.warmup_ratio = 0.26;  // of 10 steps: 3
  spec.warmup_from_zero = true;
  const LearningRateSchedule schedule(1, spec, 10, /*steps_per_epoch=*/1000);
  // transformers.get_linear_schedule_with_warmup(optimizer, 3, 10)
  const std::vector<double> rates{0,       1.0 / 3, 2.0 / 3, 1,       6.0 / 7,
                                  5.0 / 7, 4.0 / 7, 3.0 / 7, 2.0 / 7, 1.0 / 7};
  for (int64_t step = 1; step <= 10; ++step) {
    CHECK(schedule.learning_rate(step) == Approx(rates[step - 1]).epsilon(1e-12));
  }
}

TEST_CASE("without a step size the rate decays every epoch") {
  const LearningRateSchedule schedule(1.0, schedule_of(ScheduleKind::kStep), 12,
                                      /*steps_per_epoch=*/4);
  CHECK(schedule.learning_rate(4) == 1.0);
  CHECK(schedule.learning_rate(5) == Approx(0.1).epsilon(1e-12));
  CHECK(schedule.learning_rate(9) == Approx(0.01).epsilon(1e-12));
}

}  // namespace fsdp::learning_rates_test
