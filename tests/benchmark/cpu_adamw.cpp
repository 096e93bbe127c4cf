// Compares the speed of an optimizer's step on the CPU with the speed of memory. Built on demand,
// run by hand:
//
//     cmake --build --preset release --target cpu_adamw
//     build/release/cpu_adamw [threads] [elements]
//
// The measured parts take turns, so other load on the machine slows all of them. Figures are
// medians. Bytes read and bytes written are counted. A processor also fetches memory before an
// ordinary store overwrites it. These fetches are not counted. They take a third of the time of a
// copy with ordinary stores.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/step/optimizer.h"

using namespace fsdp;

namespace {

constexpr int kRounds = 15;

struct Measured {
  std::string name;
  double bytes;
  std::function<void()> body;
  std::vector<double> seconds{};
};

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

// A step of one unit.
Measured step_of(const std::string& name, const OptimizerSpec& spec, int64_t elements,
                 double bytes_per_element, at::ScalarType dtype = at::kFloat) {
  const at::Tensor parameters = at::full({elements}, 0.1, dtype);
  const at::Tensor gradient = at::full({elements}, 0.01, dtype);
  auto optimizer = std::make_shared<Optimizer>(
      spec,
      std::vector{FlatUnit{.parameters = parameters,
                           .parts = {{.parameter = "weight", .parameter_numel = elements}}}},
      /*seed=*/1, at::kCPU);
  return {name, bytes_per_element * static_cast<double>(elements),
          [=] { optimizer->step(0, 1, parameters, gradient, 1e-3); }};
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::stoi(argv[1]) : 1;
  const int64_t elements = argc > 2 ? std::stoll(argv[2]) : 50'000'000;
  at::set_num_threads(threads);

  const at::Tensor from = at::ones({elements * 14}, at::kByte);
  const at::Tensor to = at::zeros_like(from);
  const double copied = 28.0 * static_cast<double>(elements);
  OptimizerSpec adamw;
  adamw.weight_decay = 0.1;
  OptimizerSpec bf16_state = adamw;
  bf16_state.state_dtype = StateDtype::kBf16;
  OptimizerSpec int8_state = adamw;
  int8_state.state_dtype = StateDtype::kInt8;
  OptimizerSpec stochastic = adamw;
  stochastic.rounding = Rounding::kStochastic;
  OptimizerSpec sgd;
  sgd.kind = OptimizerKind::kSgd;
  sgd.momentum = 0.9;
  OptimizerSpec adadelta;
  adadelta.kind = OptimizerKind::kAdadelta;
  std::vector<Measured> all{
      {"memcpy", copied, [&] { std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes()); }},
      {"copy_", copied, [&] { to.copy_(from); }},
      step_of("adamw", adamw, elements, 28),
      step_of("adamw, bf16 state", bf16_state, elements, 20),
      step_of("adamw, int8 state", int8_state, elements / 256 * 256, 16.0625),
      step_of("adamw, bf16", adamw, elements, 14, at::kBFloat16),
      step_of("adamw, bf16, stochastic", stochastic, elements, 14, at::kBFloat16),
      step_of("sgd, momentum", sgd, elements, 20),
      step_of("adadelta", adadelta, elements, 28),
  };

  for (int round = 0; round <= kRounds; ++round) {
    for (Measured& measured : all) {
      const double seconds = seconds_of(measured.body);
      if (round > 0) measured.seconds.push_back(seconds);
    }
  }
  std::printf("%lld elements, %d threads\n", static_cast<long long>(elements), threads);
  const auto gigabytes_per_s = [](const Measured& measured) {
    return measured.bytes / median(measured.seconds) * 1e-9;
  };
  const double copy = std::max(gigabytes_per_s(all[0]), gigabytes_per_s(all[1]));
  for (const Measured& measured : all) {
    const double speed = gigabytes_per_s(measured);
    std::printf("%-24s %8.1f ms %8.1f GB/s %5.0f%% of the faster copy\n", measured.name.c_str(),
                median(measured.seconds) * 1e3, speed, 100 * speed / copy);
  }
}
