#include "trainer/memory/memory_probe.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/temporary_folder.h"

namespace fsdp::memory_probe_test {

constexpr int64_t kMebibyte = 1 << 20;
// Allows for pages that the process touches for other reasons.
constexpr int64_t kSlack = 8 * kMebibyte;

[[maybe_unused]] bool near(int64_t bytes, int64_t expected) {
  return std::abs(bytes - expected) < kSlack;
}

// Freed buffers stay resident, so what a test adds must be larger than anything freed before.
[[maybe_unused]] at::Tensor fresh(int64_t mebibytes) {
  return at::ones({mebibytes * kMebibyte}, at::kByte);
}

#ifndef __SANITIZE_ADDRESS__  // the sanitizer keeps freed memory resident
TEST_CASE("the CPU's probe sees allocated and resident memory, now and at the peak") {
  const auto probe = fsdp::make_memory_probe(at::kCPU);
  const int64_t allocated = probe->allocated_bytes();
  const int64_t reserved = probe->reserved_bytes();
  {
    const at::Tensor held = fresh(100);
    CHECK(probe->allocated_bytes() == allocated + 100 * kMebibyte);
    CHECK(near(probe->reserved_bytes(), reserved + 100 * kMebibyte));
  }
  CHECK(probe->allocated_bytes() == allocated);
  CHECK(probe->allocated_bytes_max() == allocated + 100 * kMebibyte);
  CHECK(near(probe->reserved_bytes_max(), reserved + 100 * kMebibyte));

  // glibc returns freed buffers of this size to the system, so a reset lowers the peak.
  probe->reset_peaks();
  CHECK(probe->allocated_bytes_max() == allocated);
  CHECK(near(probe->reserved_bytes_max(), reserved));
  fresh(50);
  CHECK(probe->allocated_bytes_max() == allocated + 50 * kMebibyte);
  CHECK(near(probe->reserved_bytes_max(), reserved + 50 * kMebibyte));

  // The process's own peak came before the reset.
  CHECK(near(probe->host_bytes_max(), reserved + 100 * kMebibyte));
}
#endif

TEST_CASE("memory mapped from a file is not counted") {
  const fsdp::TemporaryFolder folder;
  const std::string path = folder.write("mapped", std::string(60 * kMebibyte, 'x'));
  CpuMemoryProbe probe;
  const int64_t reserved = probe.reserved_bytes();
  {
    const at::Tensor mapped = at::from_file(path, /*shared=*/false, 60 * kMebibyte, at::kByte);
    CHECK(mapped.eq('x').all().item<bool>());
    CHECK(probe.reserved_bytes() < reserved + 70 * kMebibyte);  // the comparison's result counts
    CHECK(probe.reserved_bytes_max() < reserved + 70 * kMebibyte);
  }
}

TEST_CASE("pages of files that the kernel takes back do not count at the peak") {
  const fsdp::TemporaryFolder process;
  const auto write = [&](int peak_kib, int file_kib) {
    process.write("status", "VmHWM:\t " + std::to_string(peak_kib) +
                                " kB\nRssAnon:\t 1000 kB\nRssFile:\t " + std::to_string(file_kib) +
                                " kB\n");
  };
  process.write("clear_refs", "");
  write(90'000, 80'000);
  CpuMemoryProbe probe(process.path());
  write(95'000, 30'000);
  CHECK(probe.reserved_bytes_max() == 15'000 * 1024);
  CHECK(probe.host_bytes_max() == 15'000 * 1024);
}

TEST_CASE("where the kernel's peak cannot be reset the probe samples") {
  const fsdp::TemporaryFolder process;
  const auto write = [&](int kib) {
    std::string status = "VmHWM:\t 900000 kB\nRssAnon:\t ";
    status += std::to_string(kib);
    status += " kB\n";
    process.write("status", status);
  };
  write(1000);
  CpuMemoryProbe probe(process.path());
  write(3000);
  CHECK(probe.reserved_bytes() == 3000 * 1024);
  write(2000);
  CHECK(probe.reserved_bytes_max() == 3000 * 1024);
  probe.reset_peaks();
  CHECK(probe.reserved_bytes_max() == 2000 * 1024);
  CHECK(probe.host_bytes_max() == 3000 * 1024);
}

}  // namespace fsdp::memory_probe_test
