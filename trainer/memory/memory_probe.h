#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>

#include "trainer/memory/counting_allocator.h"

namespace fsdp {

// Measures this rank's memory on its device. Allocated: the bytes of live tensors. Reserved: the
// bytes taken from the system for tensors and not yet given back.
class MemoryProbe {
 public:
  virtual ~MemoryProbe() = default;

  virtual int64_t allocated_bytes() = 0;
  virtual int64_t reserved_bytes() = 0;
  // Peaks since reset_peaks().
  virtual int64_t allocated_bytes_max() = 0;
  virtual int64_t reserved_bytes_max() = 0;
  virtual void reset_peaks() = 0;
  // Knows what tensors ask for, by use. A GPU's allocator rounds these sizes up.
  virtual AllocationCounter& requests() = 0;
  // Returns the peak of the process's resident host memory. Mapped files do not count, because the
  // kernel can drop their pages.
  virtual int64_t host_bytes_max();
};

// Uses the counting allocator (installed here) and the process's anonymous resident memory, so
// mapped files do not count. The kernel keeps the resident peak. If that cannot be reset (reported
// on stderr), the peak is the largest value that was seen when the probe was asked.
class CpuMemoryProbe : public MemoryProbe {
 public:
  // Throws std::system_error if `process`, a folder like /proc/self, cannot be read.
  explicit CpuMemoryProbe(const std::filesystem::path& process = "/proc/self");
  ~CpuMemoryProbe() override;
  CpuMemoryProbe(const CpuMemoryProbe&) = delete;
  CpuMemoryProbe& operator=(const CpuMemoryProbe&) = delete;

  int64_t allocated_bytes() override;
  int64_t reserved_bytes() override;
  int64_t allocated_bytes_max() override;
  int64_t reserved_bytes_max() override;
  void reset_peaks() override;
  AllocationCounter& requests() override;
  int64_t host_bytes_max() override;

 private:
  void stop_resetting();

  int status_;
  int clear_refs_;  // -1: the kernel's peak cannot be reset
  int64_t sampled_bytes_max_ = 0;
  // The most memory of mapped files since the reset. The kernel may take such pages back after the
  // peak.
  int64_t file_bytes_max_ = 0;
  int64_t bytes_max_before_reset_ = 0;
};

// Returns the probe for `device`: of the caching allocator on CUDA, of planned sizes on meta.
std::unique_ptr<MemoryProbe> make_memory_probe(c10::Device device);

}  // namespace fsdp
