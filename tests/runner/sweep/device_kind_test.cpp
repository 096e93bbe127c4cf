#include <catch2/catch.hpp>

#include "runner/cluster/job_submission.h"

namespace fsdp {
namespace {

TEST_CASE("a job's devices are known by what the run asks for, whatever memory its nodes have") {
  RunSpec spec;
  spec.slurm.mem = "4G";
  spec.device = DeviceKind::kCpu;
  CHECK(slurm_device_kind(spec) == "cpu");
  spec.device = DeviceKind::kCuda;
  CHECK(slurm_device_kind(spec) == "slurm");
  spec.slurm.partition = "fast";
  spec.slurm.gpu_type = "h100";
  spec.slurm.gpu_memory_gib = 80;
  CHECK(slurm_device_kind(spec) == "slurm, partition fast, h100, 80 GiB");
}

}  // namespace
}  // namespace fsdp
