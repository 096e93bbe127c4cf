#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "trainer/memory/memory_label.h"

namespace fsdp {

// What this rank holds of its device's memory. Allocated: bytes of live tensors. Reserved: bytes
// taken from the system for them, now or still.
class MemoryProbe {
 public:
  virtual ~MemoryProbe() = default;

  virtual int64_t allocated_bytes() = 0;
  virtual int64_t reserved_bytes() = 0;
  // Peaks since reset_peaks().
  virtual int64_t allocated_bytes_max() = 0;
  virtual int64_t reserved_bytes_max() = 0;
  virtual void reset_peaks() = 0;
  // When allocated memory was at its peak, and with what; nothing on a GPU, whose allocator does
  // not tell.
  virtual std::optional<AllocationPeak> allocation_peak() { return std::nullopt; }
  // The most of the host's memory that the process has had resident. Mapped files do not count,
  // because the kernel can drop their pages.
  virtual int64_t host_bytes_max();
};

// The counting allocator (installed here), and the process's anonymous resident memory: mapped
// weights are not counted. The kernel keeps the resident peak; where it cannot be reset (said on
// standard error), the peak is that of the moments at which the probe was asked.
class CpuMemoryProbe : public MemoryProbe {
 public:
  // Throws std::system_error when `process`, a folder like /proc/self, cannot be read.
  explicit CpuMemoryProbe(const std::filesystem::path& process = "/proc/self");
  ~CpuMemoryProbe() override;
  CpuMemoryProbe(const CpuMemoryProbe&) = delete;
  CpuMemoryProbe& operator=(const CpuMemoryProbe&) = delete;

  int64_t allocated_bytes() override;
  int64_t reserved_bytes() override;
  int64_t allocated_bytes_max() override;
  int64_t reserved_bytes_max() override;
  void reset_peaks() override;
  std::optional<AllocationPeak> allocation_peak() override;
  int64_t host_bytes_max() override;

 private:
  void stop_resetting();

  int status_;
  int clear_refs_;  // -1: the kernel's peak cannot be reset
  int64_t sampled_bytes_max_ = 0;
  int64_t bytes_max_before_reset_ = 0;
};

// The probe for `device`: on CUDA its caching allocator's figures, on meta what tensors would take.
std::unique_ptr<MemoryProbe> make_memory_probe(c10::Device device);

}  // namespace fsdp
