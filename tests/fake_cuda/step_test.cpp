// Checks a step on a GPU that keeps accounts instead of computing. The step uses ATen's real checks
// and libtorch's real allocator.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>

#include <catch2/catch.hpp>

#include "tests/fake_cuda/gpu_allocations.h"
#include "tests/fakes/cuda/order.h"

namespace fsdp {
namespace {

TEST_CASE(
    "every kind of step allocates on a GPU what it does on meta, and no stream is too early") {
  fake_cuda::watch_order(/*collects=*/true);
  const auto cuda = make_backend(at::Device(at::kCUDA, kGpu));
  const auto meta = make_meta_backend(at::kCUDA, KernelSet::kAuto, nullptr, kCapability);
  for (const StepCase& step_case : step_cases()) {
    const auto real = allocations(step_case, *cuda, observe_cuda);
    check_same_allocations(step_case, without_workspace(real, kWithWorkspace),
                           allocations(step_case, *meta, observe(MetaAllocator::instance())));
  }
  CHECK(fake_cuda::hazards() == std::vector<std::string>{});
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

}  // namespace
}  // namespace fsdp
