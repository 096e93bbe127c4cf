#include <catch2/catch.hpp>
#include <cstdlib>

#include "runner/host/host.h"
#include "runner/run/local_launcher.h"

using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

// These GPUs and processes are there while the object exists.
struct Fake {
  Fake(const char* gpus, const char* processes) {
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("FAKE_NVML_GPUS", gpus, 1);
    setenv("FAKE_NVML_PROCESSES", processes, 1);
  }
  ~Fake() {
    unsetenv("FAKE_NVML_GPUS");
    unsetenv("FAKE_NVML_PROCESSES");
  }
};

}  // namespace

TEST_CASE("GPUs are read from NVML") {
  const Fake fake("80 40", "");
  const std::vector<Gpu> gpus = find_host({}).gpus;
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[1].index == 1);
  CHECK(gpus[1].name == "Fake GPU");
  CHECK(gpus[1].uuid == "GPU-bbbbbbbb");
  CHECK(gpus[1].memory_bytes == int64_t{40} << 30);
  CHECK(gpus[1].capability == ComputeCapability{8, 0});
}

TEST_CASE("a list chooses GPUs by index or UUID, in its order") {
  const Fake fake("80 80 80", "");
  const std::vector<Gpu> gpus = find_host({}).gpus;
  const std::vector<Gpu> chosen = choose_gpus(gpus, "2, GPU-aaaa", "--gpus");
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].index == 2);
  CHECK(chosen[1].index == 0);
  CHECK(choose_gpus(gpus, "", "--gpus").empty());
  CHECK_THROWS_WITH(choose_gpus(gpus, "0,3", "--gpus"),
                    "--gpus: '3' is not a GPU of this host; allowed: 0, 1, 2");
  CHECK_THROWS_WITH(choose_gpus(gpus, "0,0", "--gpus"), "--gpus: GPU 0 is named twice");
  CHECK_THROWS_WITH(choose_gpus({}, "0", "--gpus"), Contains("no NVIDIA GPU was found"));
}

TEST_CASE("GPUs that other processes hold are left alone, and named when too few are free") {
  const Fake fake("80 80 80", "1 4242 3");
  const std::vector<Gpu> gpus = find_host({}).gpus;
  const std::vector<Gpu> unheld = unheld_gpus(gpus, 2);
  REQUIRE(unheld.size() == 2);
  CHECK(unheld[0].index == 0);
  CHECK(unheld[1].index == 2);
  CHECK_THROWS_WITH(
      unheld_gpus(gpus, 3),
      "3 GPUs are needed, but only 2 are free; GPU 1 (Fake GPU) is held by process 4242 'python' "
      "(3.00 GiB); wait for these processes, stop them, or choose other GPUs with --gpus");
}

TEST_CASE("more processes than fit the first call are all seen") {
  std::string processes;
  for (int i = 0; i < 40; ++i) processes += "0 " + std::to_string(100 + i) + " 1 ";
  const Fake fake("80", processes.c_str());
  CHECK_THROWS_WITH(unheld_gpus(find_host({}).gpus, 1),
                    Contains("process 100 ") && Contains("process 139 "));
}

TEST_CASE("a launch takes only GPUs that nobody holds, and never more than there are") {
  const Fake fake("80 80", "0 4242 3");
  LocalLauncher launcher({.gpus = find_host({}).gpus});
  LaunchRequest request{.trainer = "/bin/true", .uses_gpus = true};
  request.rank_logs.assign(2, "/dev/null");
  CHECK_THROWS_WITH(launcher.start(request), Contains("GPU 0 (Fake GPU) is held by process 4242"));
  request.rank_logs.assign(3, "/dev/null");
  CHECK_THROWS_WITH(launcher.start(request), Contains("3 GPUs; allowed here: at most 2"));
  request.rank_logs.assign(1, "/dev/null");
  CHECK_NOTHROW(launcher.start(request));
}
