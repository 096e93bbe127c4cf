#include "contract/devices/device_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "base/text/config_error.h"

namespace fsdp {
namespace {

TEST_CASE("a GPU is known by what its driver calls it, and by nothing like it") {
  const DeviceTable& table = device_table();
  REQUIRE(table.device_of("NVIDIA H100 80GB HBM3"));
  CHECK(table.device_of("NVIDIA H100 80GB HBM3")->name == "h100-80");
  CHECK(table.device_of("NVIDIA A100-SXM4-40GB")->name == "a100-40");
  CHECK(table.find("NVIDIA A100-SXM4-40GB").name == "a100-40");
  CHECK(table.device_of("Tesla V100-SXM2-32GB")->name == "v100-32");
  CHECK_FALSE(table.device_of("NVIDIA H100 PCIe"));  // slower than the HBM3 one
  CHECK_FALSE(table.device_of("NVIDIA A100-SXM4-80GB MIG 1g.10gb"));
  CHECK_FALSE(table.device_of("AMD EPYC 7763 64-Core Processor"));
  CHECK_FALSE(table.device_of(""));
}

TEST_CASE("peaks are those of dense products, of the types that a GPU has products of") {
  const DeviceModel a100 = device_table().find("a100-80");
  CHECK(a100.peak_tflops(Dtype::kFp32) == 19.5);
  CHECK(a100.peak_tflops(Dtype::kBf16) == 312);
  CHECK(a100.peak_tflops(Dtype::kFp16) == 312);
  CHECK(device_table().find("v100-32").peak_tflops(Dtype::kFp16) == 125);
  CHECK_FALSE(device_table().find("v100-32").peak_tflops(Dtype::kBf16));
}

TEST_CASE("every device has names of its own, and figures that go together") {
  std::set<std::string> names;
  for (const DeviceModel& device : device_table().devices) {
    INFO(device.name);
    CHECK(names.insert(device.name).second);
    CHECK_FALSE(device.driver_names.empty());
    for (const std::string& name : device.driver_names) CHECK(names.insert(name).second);
    CHECK(device.memory_gib > 10);
    CHECK(device.fp32_tflops < std::max(device.bf16_tflops, device.fp16_tflops));
    if (device.tf32_tflops) CHECK(device.tf32_tflops < device.bf16_tflops);
    if (device.bf16_tflops && device.fp16_tflops) {
      CHECK(device.bf16_tflops == device.fp16_tflops);
    }
    CHECK(device.hfu_percent.value_or(50) < 100);
    CHECK(device.host_link_gb_per_second.value_or(1) < device.memory_gb_per_second);
  }
}

TEST_CASE("every GPU that people ask for is known") {
  for (const char* name : {"t4", "v100-16", "v100-32", "a10", "l4", "l40s", "rtx3090", "rtx4090",
                           "rtx5090", "a100-40", "a100-80", "h100-80", "h200", "b200"}) {
    CHECK(device_table().find(name).name == name);
  }
}

TEST_CASE("a GPU is found by the way people write its name") {
  const DeviceTable& table = device_table();
  CHECK(table.find("h100").name == "h100-80");
  CHECK(table.find("H200").name == "h200");
  CHECK(table.find("RTX 4090").name == "rtx4090");
  CHECK_THROWS_WITH(table.find("v100"),
                    Catch::Contains("is several GPUs; allowed: v100-32, v100-16"));
  CHECK_THROWS_WITH(table.find("a100"), Catch::Contains("allowed: a100-80, a100-40"));
}

TEST_CASE("a GPU may be of any size, which is all that is known of it") {
  const DeviceModel gb = device_table().find("24GB");
  CHECK(gb.name == "24GB");
  CHECK(gb.memory_gib == Approx(22.352).epsilon(1e-4));
  CHECK(gb.compute_capability == 0);
  CHECK(device_table().find("22.5 GiB").memory_gib == 22.5);
  for (const char* wrong : {"0GB", "-24GB", "nanGB", "infGB", "1e9GB", "24", "24MB", "GB", ""}) {
    INFO(wrong);
    CHECK_THROWS_WITH(device_table().find(wrong), Catch::Contains("or a size such as 24GB"));
  }
}

}  // namespace
}  // namespace fsdp
