#include "base/system/cgroups.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/temporary_folder.h"

namespace fsdp::test {
namespace {

// A made-up /proc/self/cgroup and the folders that it names.
class MadeUpCgroups {
 public:
  MadeUpCgroups() { std::filesystem::create_directories(folder_ / "cgroups"); }
  void is_in(const std::string& lines) { std::ofstream(places().own) << lines; }
  void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories((folder_ / "cgroups" / file).parent_path());
    std::ofstream(folder_ / "cgroups" / file) << text;
  }
  CgroupPlaces places() const { return {folder_ / "own", folder_ / "cgroups"}; }
  std::optional<int64_t> limit() const { return cgroup_memory_limit_bytes(places()); }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("the memory limit is the least on the way up to the root, in either version") {
  MadeUpCgroups cgroups;
  CHECK(cgroups.limit() == std::nullopt);
  CHECK(memory_available_bytes(cgroups.places()) > 1 << 20);
  cgroups.is_in("0::/slurm/job_7/step_0\n");
  cgroups.write("slurm/job_7/step_0/memory.max", "max\n");
  CHECK(cgroups.limit() == std::nullopt);
  cgroups.write("slurm/job_7/memory.max", "9000000\n");
  cgroups.write("slurm/job_8/memory.max", "1000\n");
  CHECK(cgroups.limit() == 9000000);
  CHECK(memory_available_bytes(cgroups.places()) == 9000000);
  cgroups.write("slurm/memory.max", "8000000\n");
  CHECK(cgroups.limit() == 8000000);
  cgroups.write("slurm/job_7/memory.high", "7000000\n");  // above it the kernel stalls processes
  CHECK(cgroups.limit() == 7000000);
  // In a container the root is its own cgroup, and the path may be the host's.
  cgroups.write("memory.max", "6000000\n");
  cgroups.is_in("0::/docker/abc\n");
  CHECK(cgroups.limit() == 6000000);
  cgroups.is_in("0::/../../other\n");
  CHECK(cgroups.limit() == 6000000);

  cgroups.is_in("5:cpu,cpuacct:/job_7\n4:memory:/job_7\n0::/nowhere\n");
  cgroups.write("memory.max", "max\n");
  cgroups.write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(cgroups.limit() == std::nullopt);
  cgroups.write("memory/job_7/memory.limit_in_bytes", "5000000\n");
  CHECK(cgroups.limit() == 5000000);
}

TEST_CASE("a cgroup file that holds no whole number sets no limit") {
  MadeUpCgroups cgroups;
  cgroups.is_in("0::/a\n");
  cgroups.write("a/memory.max", "9000000\n");
  for (const char* text :
       {"", "max", "-1", "-5000", "5M", "1e3", "0x10", "5.5", "+7", "99999999999999999999"}) {
    INFO(text);
    cgroups.write("memory.max", std::string(text) + "\n");
    CHECK(cgroups.limit() == 9000000);
    cgroups.write("cpu.max", std::string(text) + " 100000\n");
    CHECK(cgroup_cores(cgroups.places()) > 1e6);
    cgroups.write("cpu.max", "100000 " + std::string(text) + "\n");
    CHECK(cgroup_cores(cgroups.places()) > 1e6);
  }
}

TEST_CASE("the processes of the own cgroup that the kernel killed are counted, in either version") {
  MadeUpCgroups cgroups;
  CHECK(memory_kills(cgroups.places()) == 0);
  cgroups.is_in("0::/slurm/job_7\n");
  cgroups.write("slurm/memory.events", "max 3\noom_kill 9\n");
  CHECK(memory_kills(cgroups.places()) == 9);  // the own cgroup does not count
  cgroups.write("slurm/job_7/memory.events", "max 3\noom 4\noom_kill 2\n");
  CHECK(memory_kills(cgroups.places()) == 2);
  cgroups.write("slurm/job_7/memory.events", "oom_kill many\n");
  cgroups.write("slurm/memory.events", "oom 4\n");
  CHECK(memory_kills(cgroups.places()) == 0);
  cgroups.is_in("4:memory:/job_7\n0::/slurm\n");
  cgroups.write("memory/job_7/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  CHECK(memory_kills(cgroups.places()) == 5);
}

TEST_CASE("the CPU quota is the least on the way up to the root, in either version") {
  MadeUpCgroups cgroups;
  cgroups.is_in("0::/a/b\n");
  CHECK(cgroup_cores(cgroups.places()) > 1e6);
  cgroups.write("a/b/cpu.max", "max 100000\n");
  cgroups.write("a/cpu.max", "250000 100000\n");
  CHECK(cgroup_cores(cgroups.places()) == 2.5);
  cgroups.is_in("3:cpu,cpuacct:/job\n");
  cgroups.write("cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  cgroups.write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  CHECK(cgroup_cores(cgroups.places()) == 1.5);
}

}  // namespace
}  // namespace fsdp::test
