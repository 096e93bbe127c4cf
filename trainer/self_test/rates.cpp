// Measures how fast a device computes, copies and exchanges. Nothing is judged.
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/text/numbers.h"
#include "trainer/self_test/self_test.h"
#include "trainer/step/optimizer.h"

namespace fsdp {
namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

std::string rate(double amount, double seconds, double unit, const char* name) {
  return with_decimals(amount / seconds / unit, 2) + ' ' + name;
}

// Returns the seconds per piece of work, measured over `count` pieces.
template <typename Work>
double seconds_of(at::Device device, int count, Work work) {
  using Clock = std::chrono::steady_clock;
  const c10::impl::VirtualGuardImpl guard(device.type());
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) work();
  if (device.is_cuda()) guard.synchronizeDevice(device.index());
  return std::chrono::duration<double>(Clock::now() - start).count() / count;
}

// Returns the median of 5 measurements, each of `count` pieces of work.
template <typename Work>
double median_seconds_of(at::Device device, int count, Work work) {
  std::array<double, 5> seconds{};
  for (double& of_one : seconds) of_one = seconds_of(device, count, work);
  std::nth_element(seconds.begin(), seconds.begin() + 2, seconds.end());
  return seconds[2];
}

// Does the same with as many pieces of work as take about 20 ms.
template <typename Work>
double seconds_of(at::Device device, Work work) {
  seconds_of(device, 1, work);
  const int count = std::clamp(static_cast<int>(0.02 / seconds_of(device, 1, work)), 1, 1000);
  return median_seconds_of(device, count, work);
}

// Measures AdamW on bfloat16 with stochastic rounding. A step reads the gradient, and reads and
// writes parameters and two moments.
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
  show({"AdamW, bf16, stochastic",
        rate(kBytesPerElement * static_cast<double>(size), seconds, kGiga, "GB/s") + ", " +
            with_decimals(seconds * 1e3, 2) + " ms of " + std::to_string(size)});
}

void measure_products(at::Device device, const ShowRow& show) {
  const int64_t tokens = device.is_cuda() ? 8192 : 512;
  const int64_t hidden = device.is_cuda() ? 4096 : 1024;
  const int64_t inner = device.is_cuda() ? 11008 : 2752;
  for (const auto& [type, name] : {std::pair{at::kFloat, "fp32"}, {at::kBFloat16, "bf16"}}) {
    const auto options = at::TensorOptions(device).dtype(type);
    const at::Tensor x = at::randn({tokens, hidden}, options);
    const at::Tensor weight = at::randn({inner, hidden}, options);
    at::Tensor out = at::empty({tokens, inner}, options);
    const double seconds = seconds_of(device, [&] { at::mm_out(out, x, weight.t()); });
    show({std::string("product, ") + name,
          rate(2.0 * static_cast<double>(tokens * hidden * inner), seconds, kTera, "TFLOP/s") +
              ", " + std::to_string(tokens) + " x " + std::to_string(hidden) + " x " +
              std::to_string(inner)});
  }
}

// Measures causal attention: 2 products forward and 5 backward per row and head. The mask halves
// the 2 * length^2 * width operations of each product.
void measure_attention(at::Device device, const ShowRow& show) {
  const bool is_gpu = device.is_cuda();
  const at::ScalarType type = is_gpu ? at::kBFloat16 : at::kFloat;
  const AttentionHeads heads{.query = is_gpu ? 32 : 4, .key_value = is_gpu ? 32 : 4, .width = 128};
  const int64_t rows = is_gpu ? 4 : 1;
  const int64_t length = is_gpu ? 2048 : 512;
  const auto backend = make_backend(device);
  const auto options = at::TensorOptions(device).dtype(type);
  const RotaryTable table = backend->kernels().rotary_table(
      at::zeros({length, heads.width / 2}, options.dtype(at::kFloat)), nullptr, at::kFloat, type);
  const at::Tensor qkv =
      at::randn({rows * length, (heads.query + 2 * heads.key_value) * heads.width}, options);
  const at::Tensor dout = at::randn({rows * length, heads.query * heads.width}, options);
  const double seconds = seconds_of(device, [&] {
    Kernels& kernels = backend->kernels();
    kernels.attention_backward(dout, kernels.attention(qkv.clone(), heads, table, true), heads,
                               table);
  });
  const double operations = 7.0 * static_cast<double>(rows * heads.query * length * length) *
                            static_cast<double>(heads.width);
  show({std::string("attention, ") + (is_gpu ? "bf16" : "fp32"),
        rate(operations, seconds, kTera, "TFLOP/s") + ", " + std::to_string(rows) + " x " +
            std::to_string(length) + " tokens, " + std::to_string(heads.query) + " heads"});
}

void measure_copies(at::Device device, const ShowRow& show) {
  const int64_t bytes = device.is_cuda() ? int64_t{1} << 30 : int64_t{1} << 27;
  const at::Tensor here = at::zeros({bytes}, at::TensorOptions(device).dtype(at::kByte));
  const at::Tensor there = at::empty_like(here);
  const double seconds = seconds_of(device, [&] { there.copy_(here); });
  const auto amount = static_cast<double>(bytes);
  show({"copy on the device", rate(2.0 * amount, seconds, kGiga, "GB/s read and written")});
  if (!device.is_cuda()) return;
  const at::Tensor host = make_backend(device)->empty_host(bytes, at::kByte);
  const double in = seconds_of(device, [&] { there.copy_(host, /*non_blocking=*/true); });
  show({"copy from the host", rate(amount, in, kGiga, "GB/s")});
  const double out = seconds_of(device, [&] { host.copy_(there, /*non_blocking=*/true); });
  show({"copy to the host", rate(amount, out, kGiga, "GB/s")});
}

}  // namespace

void measure_rates(at::Device device, const ShowRow& show) {
  measure_products(device, show);
  measure_attention(device, show);
  measure_copies(device, show);
  measure_optimizer(device, show);
}

// Counts the bytes that each rank sends, as nccl-tests does.
void measure_exchange(ProcessGroup& group, at::Device device, const ShowRow& show) {
  constexpr int kCount = 4;
  const int64_t part = device.is_cuda() ? int64_t{1} << 26 : int64_t{1} << 20;
  const int64_t ranks = group.size();
  const auto options = at::TensorOptions(device).dtype(at::kFloat);
  const at::Tensor whole = at::zeros({ranks * part}, options);
  const at::Tensor shard = at::zeros({part}, options);
  const double sent = static_cast<double>((ranks - 1) * part) * sizeof(float);
  const auto measure = [&](const std::string& name, double bytes,
                           const std::function<Pending()>& begin) {
    begin().wait();
    const double seconds = median_seconds_of(device, kCount, [&] { begin().wait(); });
    show({name + " of " + std::to_string(ranks) + " ranks",
          rate(bytes, seconds, kGiga, "GB/s of each rank")});
  };
  measure("all_gather", sent, [&] { return group.all_gather(whole, shard); });
  measure("reduce_scatter", sent, [&] { return group.reduce_scatter(shard, whole); });
  measure("all_reduce", 2 * sent, [&] { return group.all_reduce(whole); });
}

}  // namespace fsdp
