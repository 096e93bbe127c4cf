#include <catch2/catch.hpp>
#include <cstdlib>

#include "trainer/train/device.h"

namespace fsdp::describe_gpu_test {

// Tests with the fake NVML, tests/fakes/nvml.cpp.

TEST_CASE("a rank says on which GPU it is, what that may do, and who else is there") {
  setenv("FAKE_NVML_GPUS", "80 40 40", 1);
  setenv("FAKE_NVML_PROCESSES", "0 17 3  1 4242 3  1 4243 3  1 4244 3  2 99 1", 1);
  RunStarted started;
  describe_gpu(started, "bbbbbbbb");
  CHECK(started.driver_version == "580.65.06");
  CHECK(started.gpu == "gpu:1");
  CHECK(started.power_limit_watts == 700.5);
  CHECK(started.sm_clock_mhz_max == 1981);
  CHECK(started.other_processes == 2);

  RunStarted alone;
  describe_gpu(alone, "cccccccc");
  CHECK(alone.gpu == "gpu:2");
  CHECK_FALSE(alone.power_limit_watts);  // the last GPU has no power sensor
  CHECK(alone.other_processes == 0);
}

TEST_CASE("a rank on a slice of a GPU shares the GPU's power, not its processes") {
  setenv("FAKE_NVML_GPUS", "80 40", 1);
  setenv("FAKE_NVML_PROCESSES", "0 1 3  0 2 3  0 3 3  100 2 3  100 3 3", 1);
  RunStarted started;
  describe_gpu(started, "aaaaaaaa");
  CHECK(started.other_processes == 2);
  setenv("FAKE_NVML_MIG", "1", 1);
  describe_gpu(started, "aaaaaaaa");
  unsetenv("FAKE_NVML_MIG");
  CHECK(started.gpu == "gpu:0");
  CHECK(started.power_limit_watts == 699.5);
  CHECK(started.other_processes == 1);
}

TEST_CASE("what the driver does not know or show stays empty") {
  setenv("FAKE_NVML_GPUS", "80", 1);
  setenv("FAKE_NVML_PROCESSES", "", 1);
  RunStarted unknown;
  describe_gpu(unknown, "zzzzzzzz");
  CHECK(unknown.driver_version == "580.65.06");
  CHECK(unknown.gpu.empty());
  CHECK_FALSE(unknown.other_processes);
  RunStarted in_container;  // NVML does not even list this process
  describe_gpu(in_container, "aaaaaaaa");
  CHECK(in_container.gpu == "gpu:0");
  CHECK_FALSE(in_container.other_processes);
}

}  // namespace fsdp::describe_gpu_test
