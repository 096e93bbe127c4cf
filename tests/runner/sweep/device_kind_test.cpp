#include <catch2/catch.hpp>

#include "runner/cluster/job_submission.h"
#include "runner/run/run_planner.h"

namespace fsdp {
namespace {

RunSpec spec_on(DeviceKind device, double memory_limit_gib = 0) {
  RunSpec spec;
  spec.device = device;
  spec.memory_limit_gib = memory_limit_gib;
  return spec;
}

TEST_CASE("what ran out of memory runs out under a limit that is no larger") {
  const RunSpec spec = spec_on(DeviceKind::kCpu);
  const RanOut killed{"cpu, memory limit 900 MiB"};
  CHECK(runs_out_on("cpu, memory limit 900 MiB", spec, killed));
  CHECK(runs_out_on("cpu, memory limit 800 MiB", spec, killed));
  CHECK_FALSE(runs_out_on("cpu, memory limit 1000 MiB", spec, killed));
  CHECK_FALSE(runs_out_on("cpu", spec, killed));
  CHECK_FALSE(runs_out_on("cpu, memory limit 1000 MiB", spec, {"cpu"}));  // its limit is unknown
  CHECK(runs_out_on("cpu", spec, {"cpu", true}));
}

TEST_CASE("the limit of a run's own, or of its GPU, is the same in every container") {
  const RunSpec emulated = spec_on(DeviceKind::kCpu, 0.5);
  CHECK(runs_out_on("cpu", emulated, {"cpu, memory limit 900 MiB", true}));
  CHECK_FALSE(runs_out_on("cpu", emulated, {"cpu, memory limit 900 MiB", false}));
  CHECK_FALSE(runs_out_on("cpu", emulated, {"cpu, memory limit 400 MiB", true}));
  CHECK_FALSE(runs_out_on("cpu", spec_on(DeviceKind::kCpu), {"cpu, memory limit 9 MiB", true}));
  const RunSpec on_gpu = spec_on(DeviceKind::kCuda);
  CHECK(runs_out_on("H100", on_gpu, {"H100, memory limit 900 MiB", true}));
  CHECK(runs_out_on("H100, memory limit 2000 MiB", on_gpu, {"H100, memory limit 900 MiB", true}));
  CHECK_FALSE(runs_out_on("H100", on_gpu, {"H100, memory limit 900 MiB", false}));
  CHECK_FALSE(runs_out_on("A100", on_gpu, {"H100", true}));
}

TEST_CASE("a device is the same under every memory limit") {
  CHECK(are_of_one_device("H100, memory limit 900 MiB", "H100"));
  CHECK(are_of_one_device("cpu, memory limit 9 MiB", "cpu, memory limit 10 MiB"));
  CHECK_FALSE(are_of_one_device("H100, memory limit 9 MiB", "A100, memory limit 9 MiB"));
}

TEST_CASE("a job's memory is known by its amount") {
  RunSpec spec = spec_on(DeviceKind::kCpu);
  CHECK(slurm_device_kind(spec) == "cpu");
  spec.slurm.mem = "4G";
  CHECK(slurm_device_kind(spec) == "cpu, memory limit 4096 MiB");
  CHECK(with_memory_limit(slurm_device_kind(spec), 400 << 20) == "cpu, memory limit 400 MiB");
  CHECK(runs_out_on("cpu, memory limit 4096 MiB", spec, {slurm_device_kind(spec)}));
  CHECK_FALSE(runs_out_on("cpu, memory limit 8192 MiB", spec, {slurm_device_kind(spec)}));
  spec.slurm.nodes = 2;  // each node has this memory
  CHECK_FALSE(runs_out_on(slurm_device_kind(spec), spec, {"cpu, memory limit 4096 MiB"}));
}

}  // namespace
}  // namespace fsdp
