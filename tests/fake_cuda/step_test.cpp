// Checks a step on a fake GPU, which records memory and the order of work, and computes nothing.
// ATen's checks and libtorch's allocator are the real ones.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <utility>

#include "tests/fake_cuda/gpu_allocations.h"
#include "tests/fakes/cuda/order.h"

namespace fsdp::step_test {

TEST_CASE(
    "every kind of step allocates on a GPU what it does on meta, and no stream is too early") {
  fake_cuda::watch_order(/*collects=*/true);
  fake_cuda::forget_hazards();  // of refusals_test, whose products reach beyond their memory
  const auto cuda = make_backend(at::Device(at::kCUDA, kGpu));
  const auto meta = make_meta_backend(at::kCUDA, KernelSet::kAuto, nullptr, kCapability);
  for (const StepCase& step_case : step_cases()) {
    const auto real = allocations(step_case, *cuda, observe_cuda);
    check_same_allocations(step_case, without_workspace(real, kWithWorkspace),
                           allocations(step_case, *meta, observe(MetaAllocator::instance())));
  }
  CHECK(fake_cuda::hazards() == std::vector<std::string>{});
}

// Returns the peak of the allocated bytes. libtorch's allocator rounds each allocation up to
// blocks.
int64_t peak_bytes(const ObserveAllocations& observe, const std::function<void()>& work) {
  constexpr int64_t kBlock = 512;
  std::map<uintptr_t, int64_t> held;
  int64_t now = 0, most = 0;
  observe([&](uintptr_t id, int64_t bytes, bool is_release) {
    const int64_t rounded = (bytes + kBlock - 1) / kBlock * kBlock;
    now += is_release ? -std::exchange(held[id], 0) : (held[id] = rounded);
    most = std::max(most, now);
  });
  work();
  observe({});
  return most;
}

TEST_CASE("sorting the gradients of a relative bias takes the memory that is planned") {
  struct Table {
    int64_t count, rows, width;
  };
  const auto cuda = make_backend(at::Device(at::kCUDA, kGpu));
  const auto meta = make_meta_backend(at::kCUDA, KernelSet::kAuto, nullptr, kCapability);
  const auto peak = [](Kernels& kernels, const Table& table, at::Device device,
                       const ObserveAllocations& observe) {
    const at::TensorOptions options = at::TensorOptions(at::kBFloat16).device(device);
    const at::Tensor dy_ND = at::empty({table.count, table.width}, options);
    const at::Tensor ids_N = at::zeros({table.count}, options.dtype(at::kLong));
    GradientBuffer dweight{.tensor = at::empty({table.rows, table.width}, options)};
    return peak_bytes(observe, [&] { kernels.embedding_backward(dy_ND, ids_N, dweight); });
  };
  for (const Table& table : std::vector<Table>{{1024, 32, 2},
                                               {3073, 32, 2},
                                               {64 * 64, 32, 2},
                                               {64 * 64, 32, 16},
                                               {150 * 150, 32, 12},
                                               {512 * 512, 32, 64},
                                               {9000, 320, 64},
                                               {5000, 1024, 64},
                                               {5000, 32000, 16}}) {
    for (const bool is_deterministic : {false, true}) {
      CAPTURE(table.count, table.rows, table.width, is_deterministic);
      at::globalContext().setDeterministicAlgorithms(is_deterministic, /*warn_only=*/false);
      CHECK(peak(cuda->kernels(), table, at::Device(at::kCUDA, kGpu), observe_cuda) ==
            peak(meta->kernels(), table, at::kMeta, observe(MetaAllocator::instance())));
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

TEST_CASE("a product of one row, as of a batch of one token, takes no workspace of its own") {
  const auto cuda = make_backend(at::Device(at::kCUDA, kGpu));
  const c10::DeviceGuard on_gpu(c10::Device(at::kCUDA, kGpu));
  const auto options = at::TensorOptions(at::kHalf).device(at::kCUDA, kGpu);
  const at::Tensor x_ND = at::zeros({1, 48}, options), weight_OD = at::zeros({64, 48}, options);
  const at::Tensor y_NO = at::zeros({1, 64}, options);
  const auto multiply = [&] {
    cuda->kernels().multiply(y_NO, x_ND, weight_OD.t(), /*accumulate=*/true);
  };
  CHECK(peak_bytes(observe_cuda, multiply) == 0);
}

TEST_CASE("a stream that does not wait for what it reads or overwrites is too early") {
  fake_cuda::watch_order(/*collects=*/true);
  const c10::Device gpu(at::kCUDA, kGpu);
  const c10::DeviceGuard on_gpu(gpu);
  at::Tensor x = at::zeros({100}, gpu);
  const c10::cuda::CUDAStream other = c10::cuda::getStreamFromPool(false, kGpu);
  const auto is_early = [&](const std::function<void()>& work) {
    fake_cuda::forget_hazards();
    const c10::cuda::CUDAStreamGuard guard(other);
    work();
    return !fake_cuda::hazards().empty();
  };
  CHECK(is_early([&] { x.narrow(0, 50, 1).sum(); }));
  c10::Event written(c10::DeviceType::CUDA);
  written.record(c10::cuda::getDefaultCUDAStream(kGpu).unwrap());
  written.block(other.unwrap());
  CHECK(!is_early([&] { x.narrow(0, 50, 1).sum(); }));
  x.narrow(0, 0, 50).sum();
  CHECK(!is_early([&] { x.narrow(0, 50, 50).zero_(); }));
  CHECK(is_early([&] { x.narrow(0, 49, 1).zero_(); }));
  fake_cuda::forget_hazards();
}

TEST_CASE(
    "every wait between two streams of a GPU is needed: without it an operator is too early") {
  fake_cuda::watch_order(/*collects=*/true);
  const auto cuda = make_backend(at::Device(at::kCUDA, kGpu));
  std::vector<StepCase> cases;
  for (const StepCase& step_case : step_cases()) {
    const StrategySpec& strategy = step_case.spec.strategy;
    if (strategy.sharding == Sharding::kHybridShard || strategy.offload != Offload::kNone) {
      cases.push_back(step_case);
    }
  }
  const auto run = [&] {
    for (size_t i = 0; i < cases.size(); i += 8) allocations(cases[i], *cuda, observe_cuda);
  };
  fake_cuda::take_waits();
  run();
  const std::set<fake_cuda::Wait> waits = fake_cuda::take_waits();
  CHECK(waits.size() > 6);
  for (const fake_cuda::Wait& wait : waits) {
    CAPTURE(wait.first, wait.second);
    fake_cuda::forget_hazards();
    fake_cuda::leave_out(wait);
    run();
    CHECK(!fake_cuda::hazards().empty());
  }
  fake_cuda::leave_out({});
  fake_cuda::forget_hazards();
}

}  // namespace fsdp::step_test
