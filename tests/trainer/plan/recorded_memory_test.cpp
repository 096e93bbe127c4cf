#include <ATen/ops/empty.h>

#include <catch2/catch.hpp>

#include "trainer/backend/backend.h"
#include "trainer/plan/gpu_memory.h"

namespace fsdp::recorded_memory_test {

MemoryChange change(int64_t bytes, MemoryUse use, bool is_release,
                    MemoryPhase phase = MemoryPhase::kForward) {
  return {.address = 1,
          .bytes = bytes,
          .is_release = is_release,
          .use = use,
          .phase = phase,
          .unit = 2};
}

TEST_CASE("a short timeline has every moment") {
  const std::vector<MemoryMoment> timeline = memory_timeline(std::vector<MemoryChange>{
      change(10, MemoryUse::kParameters, false, MemoryPhase::kStart),
      change(5, MemoryUse::kHead, false), change(5, MemoryUse::kHead, true)});
  REQUIRE(timeline.size() == 3);
  CHECK(timeline[0].phase == MemoryPhase::kStart);
  CHECK(timeline[1].phase == MemoryPhase::kForward);
  CHECK(timeline[1].unit == 2);
  CHECK(timeline[1].by_use[MemoryUse::kParameters] == 10);
  CHECK(timeline[1].by_use[MemoryUse::kHead] == 5);
  CHECK(timeline[2].by_use[MemoryUse::kHead] == 0);
  CHECK(timeline[2].phase == MemoryPhase::kForward);
}

TEST_CASE("of a long timeline no peak and no trough is lost") {
  std::vector<MemoryChange> changes{change(1000, MemoryUse::kMlp, false)};
  const auto add = [&](int64_t bytes) {
    changes.push_back(change(bytes, MemoryUse::kMlp, false));
    changes.push_back(change(bytes, MemoryUse::kMlp, true));
  };
  for (int i = 0; i < 5000; ++i) add(1);
  add(700);
  changes.push_back(change(900, MemoryUse::kMlp, true));
  changes.push_back(change(900, MemoryUse::kMlp, false));
  for (int i = 0; i < 5000; ++i) add(1);
  const std::vector<MemoryMoment> timeline = memory_timeline(changes);
  CHECK(timeline.size() > 128);
  CHECK(timeline.size() <= 258);
  int64_t most = 0, least = 1000, allocation = -1;
  for (const MemoryMoment& moment : timeline) {
    CHECK(moment.allocation > allocation);
    allocation = moment.allocation;
    most = std::max(most, moment.by_use[MemoryUse::kMlp]);
    least = std::min(least, moment.by_use[MemoryUse::kMlp]);
  }
  CHECK(most == 1700);
  CHECK(least == 100);
  CHECK(timeline.front().allocation == 0);
  CHECK(allocation == static_cast<int64_t>(changes.size()) - 1);
}

TEST_CASE("a timeline of nothing is empty") { CHECK(memory_timeline({}).empty()); }

TEST_CASE("cuBLAS's workspace is the GPU's first memory, before the parameters") {
  const auto backend = make_meta_backend(at::kCUDA);
  constexpr int64_t kWorkspaceBytes = 32 << 20;  // on Hopper GPUs
  constexpr int64_t kParameterBytes = 4 << 20;
  MemoryRecording recording(at::kCUDA);
  const at::Tensor parameters =
      at::empty({kParameterBytes}, at::TensorOptions(at::kByte).device(at::kMeta));
  const GpuMemory memory = replay_on_gpu(
      recording, RunSpec(),
      {.kind = DeviceKind::kCuda, .memory_bytes = 1 << 30, .compute_capability = 90}, std::nullopt);
  CHECK(memory.allocated_bytes_max == kWorkspaceBytes + kParameterBytes);
}

}  // namespace fsdp::recorded_memory_test
