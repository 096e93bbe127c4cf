#include "runner/launch/out_of_memory_kills.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "runner/launch/supervised_launches.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

std::optional<int64_t> kills_in(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "vmstat") << text;
  return out_of_memory_kills(folder / "vmstat");
}

TEST_CASE("the kernel's count of processes that it ended for want of memory is read") {
  CHECK(kills_in("nr_free_pages 12\noom_kill 3\ndrop_slab 0\n") == 3);
  CHECK(kills_in("nr_free_pages 12\n") == std::nullopt);
  CHECK(kills_in("oom_kill many\n") == std::nullopt);
  CHECK(out_of_memory_kills("/no/such/file") == std::nullopt);
}

TEST_CASE("limits that memory came to are those of the own cgroups, up to the root") {
  const TemporaryFolder folder;
  const auto write = [&](const std::filesystem::path& file, const char* text) {
    std::filesystem::create_directories((folder / file).parent_path());
    std::ofstream(folder / file) << text;
  };
  const auto hits = [&] { return memory_limit_hits(folder / "own", folder / "cgroups"); };
  CHECK(hits() == 0);
  write("cgroups/memory.events", "low 0\nmax 5\noom 1\noom_kill 9\n");
  write("cgroups/slurm/memory.events", "max 3\noom 2\noom_kill 9\n");
  write("cgroups/slurm/job_7/memory.events", "max 3\noom 4\n");
  write("cgroups/slurm/job_8/memory.events", "oom 100\n");
  write("own", "0::/slurm/job_7\n");
  CHECK(hits() == 7);
  write("cgroups/memory/memory.failcnt", "0\n");
  write("cgroups/memory/job_7/memory.failcnt", "30\n");
  write("own", "5:cpu:/job_7\n4:memory:/job_7\n");
  CHECK(hits() == 30);
}

TEST_CASE("a rank killed by signal 9 while memory ran out is told with what takes less") {
  EndReport report;
  report.outcome = LaunchOutcome::kFailed;
  report.first_rank = 1;
  report.wait_status = SIGKILL;
  EndedLaunch ended{.request = {}, .report = report};
  CHECK(launch_result(ended).reason == "rank 1 killed by signal 9");
  ended.memory_ran_out = true;
  CHECK_THAT(launch_result(ended).reason,
             Catch::StartsWith("rank 1 killed by signal 9: meanwhile the kernel ended a process "
                               "because the host's memory ran out; ") &&
                 Catch::Contains("take less"));
  ended.limit_was_hit = true;
  CHECK_THAT(
      launch_result(ended).reason,
      Catch::Contains("because the memory limit of its job or container (cgroup) was reached; "));
  ended.report->wait_status = SIGTERM;
  CHECK(launch_result(ended).reason == "rank 1 killed by signal 15");
}

}  // namespace
}  // namespace fsdp
