// Reads a rank's memory from the counting allocator and /proc.
#include "trainer/memory/memory_probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iostream>
#include <string_view>
#include <system_error>

#include "trainer/memory/counting_allocator.h"
#ifdef FSDP_CUDA
#include "trainer/memory/cuda_memory.h"
#endif

namespace fsdp {
namespace {

class StatusText {
 public:
  explicit StatusText(int descriptor) {
    const ssize_t size = pread(descriptor, text_.data(), text_.size(), 0);
    if (size < 0) throw std::system_error(errno, std::generic_category(), "/proc/self/status");
    view_ = {text_.data(), static_cast<size_t>(size)};
  }

  // Returns the bytes of a line such as "VmHWM:     1760 kB".
  int64_t bytes(std::string_view name) const {
    const size_t line = view_.find(name);
    if (line == std::string_view::npos) return 0;
    const size_t digits = view_.find_first_of("0123456789", line + name.size());
    int64_t kib = 0;
    std::from_chars(view_.data() + digits, view_.data() + view_.size(), kib);
    return kib * 1024;
  }

  int64_t file_bytes() const { return bytes("RssFile:") + bytes("RssShmem:"); }
  // Returns the peak of resident memory, without mapped files.
  int64_t peak_bytes() const { return bytes("VmHWM:") - file_bytes(); }

 private:
  std::array<char, 4096> text_;
  std::string_view view_;
};

}  // namespace

int64_t MemoryProbe::host_bytes_max() {
  const int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (status < 0) throw std::system_error(errno, std::generic_category(), "/proc/self/status");
  const int64_t bytes = StatusText(status).peak_bytes();
  close(status);
  return bytes;
}

CpuMemoryProbe::CpuMemoryProbe(const std::filesystem::path& process)
    : status_(open((process / "status").c_str(), O_RDONLY | O_CLOEXEC)),
      clear_refs_(open((process / "clear_refs").c_str(), O_WRONLY | O_CLOEXEC)) {
  if (status_ < 0) {
    throw std::system_error(errno, std::generic_category(), (process / "status").string());
  }
  CountingAllocator::instance().install();
  if (clear_refs_ < 0) stop_resetting();
  reset_peaks();
}

CpuMemoryProbe::~CpuMemoryProbe() {
  close(status_);
  if (clear_refs_ >= 0) close(clear_refs_);
}

int64_t CpuMemoryProbe::allocated_bytes() {
  return CountingAllocator::instance().allocated_bytes();
}

int64_t CpuMemoryProbe::allocated_bytes_max() {
  return CountingAllocator::instance().allocated_bytes_max();
}

AllocationCounter& CpuMemoryProbe::requests() { return CountingAllocator::instance(); }

int64_t CpuMemoryProbe::reserved_bytes() {
  const StatusText status(status_);
  const int64_t bytes = status.bytes("RssAnon:");
  sampled_bytes_max_ = std::max(sampled_bytes_max_, bytes);
  file_bytes_max_ = std::max(file_bytes_max_, status.file_bytes());
  return bytes;
}

int64_t CpuMemoryProbe::reserved_bytes_max() {
  reserved_bytes();
  if (clear_refs_ < 0) return sampled_bytes_max_;
  return std::max(StatusText(status_).bytes("VmHWM:") - file_bytes_max_, sampled_bytes_max_);
}

int64_t CpuMemoryProbe::host_bytes_max() {
  bytes_max_before_reset_ = std::max(bytes_max_before_reset_, reserved_bytes_max());
  return bytes_max_before_reset_;
}

void CpuMemoryProbe::reset_peaks() {
  CountingAllocator::instance().reset_peak();
  host_bytes_max();
  // The value 5 resets the peak resident size (proc(5)).
  if (clear_refs_ >= 0 && pwrite(clear_refs_, "5", 1, 0) != 1) stop_resetting();
  sampled_bytes_max_ = 0;
  file_bytes_max_ = 0;
  reserved_bytes();
}

void CpuMemoryProbe::stop_resetting() {
  std::cerr << "memory: the peak of resident memory cannot be reset (clear_refs: "
            << std::strerror(errno) << "); reserved peaks are sampled" << std::endl;
  if (clear_refs_ >= 0) close(clear_refs_);
  clear_refs_ = -1;
}

namespace {

class MetaMemoryProbe : public MemoryProbe {
 public:
  MetaMemoryProbe() { counter_.install(); }
  int64_t allocated_bytes() override { return counter_.allocated_bytes(); }
  int64_t allocated_bytes_max() override { return counter_.allocated_bytes_max(); }
  int64_t reserved_bytes() override { return counter_.allocated_bytes(); }
  int64_t reserved_bytes_max() override { return counter_.allocated_bytes_max(); }
  void reset_peaks() override { counter_.reset_peak(); }
  AllocationCounter& requests() override { return counter_; }

 private:
  MetaAllocator& counter_ = MetaAllocator::instance();
};

}  // namespace

std::unique_ptr<MemoryProbe> make_memory_probe(c10::Device device) {
#ifdef FSDP_CUDA
  if (device.is_cuda()) return make_cuda_memory_probe(device);
#endif
  if (device.is_meta()) return std::make_unique<MetaMemoryProbe>();
  TORCH_CHECK(device.is_cpu(), "no memory probe for ", device);
  return std::make_unique<CpuMemoryProbe>();
}

}  // namespace fsdp
