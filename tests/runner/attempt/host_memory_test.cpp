#include "contract/record/host_memory.h"

#include <catch2/catch.hpp>

#include "runner/run/attempt.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

// Returns the ending of an attempt for which the host's memory was too small. `slurm_job` is empty
// outside of jobs.
Ending end_without_memory(const RunSpec& spec, const std::string& slurm_job,
                          std::string_view reason = kSlurmLimitReached) {
  const ResultsFolder results;
  RunRecord run = planned_run("point", 1);
  run.spec = spec;
  const RunPaths paths(results.path() / run.folder);
  std::filesystem::create_directories(paths.attempt(1));
  AttemptStart start = attempt_start();
  start.slurm_job = slurm_job;
  start.device_kind = "cpu, memory limit 400 MiB";
  write_start(paths, 1, start);
  AttemptEnd end;
  end.outcome = LaunchOutcome::kOutOfMemory;
  end.reason = reason;
  FileDigests digests;
  return judge_and_check_inputs(results.path(), run, 1, std::vector<RankEnd>(1), digests, end);
}

RunSpec spec_with(DeviceKind device, const std::string& mem = "") {
  RunSpec spec;
  spec.device = device;
  spec.slurm.mem = mem;
  return spec;
}

using enum RunStatus;

TEST_CASE("a site's default memory became the answer to what fits") {
  const Ending ending = end_without_memory(spec_with(DeviceKind::kCpu), "12_0");
  CHECK(ending.status == kOutOfHostMemory);
  CHECK_FALSE(ending.is_result());
  CHECK(ending.reason ==
        "the job's memory limit (slurm.mem) was reached; the limit is 400 MiB of each node; raise "
        "slurm.mem");
}

TEST_CASE("the memory that the experiment asks of Slurm is a limit that it asks about") {
  const Ending ending = end_without_memory(spec_with(DeviceKind::kCpu, "400M"), "12_0");
  CHECK(ending.status == kOutOfMemory);
  CHECK_THAT(ending.reason, Catch::EndsWith("; the limit is 400 MiB of each node"));
}

TEST_CASE("a run on a GPU that the host's memory ends says nothing about the GPU's") {
  for (const std::string mem : {"", "400M"}) {
    CHECK(end_without_memory(spec_with(DeviceKind::kCuda, mem), "12_0").status == kOutOfHostMemory);
  }
  CHECK(end_without_memory(spec_with(DeviceKind::kCuda), "", kCgroupLimit).status ==
        kOutOfHostMemory);
  CHECK(end_without_memory(spec_with(DeviceKind::kCuda), "12_0", "CUDA out of memory").status ==
        kOutOfMemory);
}

TEST_CASE("the memory of this host is what a run on its CPUs asks about") {
  const Ending ending = end_without_memory(spec_with(DeviceKind::kCpu), "", kCgroupLimit);
  CHECK(ending.status == kOutOfMemory);
  CHECK(ending.reason == kCgroupLimit);
}

}  // namespace
}  // namespace fsdp
