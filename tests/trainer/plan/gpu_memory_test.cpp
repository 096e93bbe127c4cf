#include "trainer/plan/gpu_memory.h"

#include <ATen/ops/empty.h>

#include <catch2/catch.hpp>

#include "trainer/backend/backend.h"

namespace fsdp {
namespace {

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

}  // namespace
}  // namespace fsdp
