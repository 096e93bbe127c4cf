#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>

#include "contract/text/numbers.h"
#include "trainer/self_test/self_test.h"
#include "trainer/step/optimizer.h"

namespace fsdp {
namespace {

// The median of 5, each of `work` done as often as takes about 20 ms, in seconds of one.
template <typename Work>
double seconds_of(at::Device device, Work work) {
  using Clock = std::chrono::steady_clock;
  const c10::impl::VirtualGuardImpl guard(device.type());
  const auto run = [&](int count) {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) work();
    if (device.is_cuda()) guard.synchronizeDevice(device.index());
    return std::chrono::duration<double>(Clock::now() - start).count() / count;
  };
  run(1);
  const int count = std::clamp(static_cast<int>(0.02 / run(1)), 1, 1000);
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) seconds.push_back(run(count));
  std::nth_element(seconds.begin(), seconds.begin() + 2, seconds.end());
  return seconds[2];
}

// A step of AdamW on bfloat16 with stochastic rounding: the gradient is read, parameters and two
// moments are read and written.
void measure_optimizer(at::Device device, const ShowRow& show) {
  const int64_t size = device.is_cuda() ? int64_t{1} << 28 : int64_t{1} << 22;
  const at::Tensor parameters =
      at::full({size}, 0.1, at::TensorOptions(at::kBFloat16).device(device));
  const at::Tensor gradient = at::full_like(parameters, 0.01);
  OptimizerSpec spec;
  spec.rounding = Rounding::kStochastic;
  Optimizer optimizer(spec, {{parameters, {{.parameter = "weight"}}}}, /*seed=*/1, device.type());
  const double seconds =
      seconds_of(device, [&] { optimizer.step(0, 1, parameters, gradient, 1e-3); });
  constexpr double kBytesPerElement = 14;
  show({"AdamW of " + std::to_string(size) + ", bf16, stochastic",
        with_decimals(seconds * 1e3, 2) + " ms, " +
            with_decimals(kBytesPerElement * static_cast<double>(size) / seconds / 1e9, 2) +
            " GB/s"});
}

}  // namespace

void measure_rates(at::Device device, const ShowRow& show) {
  const bool is_gpu = device.is_cuda();
  const int64_t tokens = is_gpu ? 8192 : 512;
  const int64_t hidden = is_gpu ? 4096 : 1024;
  const int64_t inner = is_gpu ? 11008 : 2752;
  for (const auto& [type, name] : {std::pair{at::kFloat, "fp32"}, {at::kBFloat16, "bf16"}}) {
    const auto options = at::TensorOptions(device).dtype(type);
    const at::Tensor x = at::ones({tokens, hidden}, options);
    const at::Tensor weight = at::ones({inner, hidden}, options);
    const at::Tensor y = at::empty({tokens, inner}, options);
    at::Tensor out = y;
    const double seconds = seconds_of(device, [&] { at::mm_out(out, x, weight.t()); });
    const double operations = 2.0 * static_cast<double>(tokens * hidden * inner);
    show({"product " + std::to_string(tokens) + " x " + std::to_string(hidden) + " x " +
              std::to_string(inner) + ", " + name,
          with_decimals(operations / seconds / 1e12, 2) + " TFLOP/s"});
  }
  const int64_t bytes = is_gpu ? int64_t{1} << 30 : int64_t{1} << 27;
  const at::Tensor from = at::zeros({bytes}, at::TensorOptions(device).dtype(at::kByte));
  const at::Tensor to = at::empty_like(from);
  const double copy = seconds_of(device, [&] { to.copy_(from); });
  show({"copy on the device", with_decimals(2.0 * static_cast<double>(bytes) / copy / 1e9, 2) +
                                  " GB/s read and written"});
  if (is_gpu) {
    const at::Tensor host = make_backend(device)->empty_host(bytes, at::kByte);
    const double transfer = seconds_of(device, [&] { to.copy_(host, /*non_blocking=*/true); });
    show({"copy from the host",
          with_decimals(static_cast<double>(bytes) / transfer / 1e9, 2) + " GB/s"});
  }
  measure_optimizer(device, show);
}

}  // namespace fsdp
