// Makes zeros whose pages come with the first write.
#include "trainer/memory/zero_pages.h"

#include <ATen/ATen.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace fsdp {
namespace {

// Below this size, the savings are not worth the page faults.
constexpr size_t kLargeBytes = 1 << 20;

}  // namespace

at::Tensor zeros_on_demand(at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor zeros = at::empty(sizes, options);
  if (!zeros.is_cpu() || zeros.nbytes() < kLargeBytes) return zeros.zero_();
  auto* const begin = static_cast<std::byte*>(zeros.mutable_data_ptr());
  std::byte* const end = begin + zeros.nbytes();
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  std::byte* const first_page = begin + (page - reinterpret_cast<uintptr_t>(begin) % page) % page;
  std::byte* const pages_end = end - reinterpret_cast<uintptr_t>(end) % page;
  // Anonymous memory that is given back reads as zeros, madvise(2).
  if (madvise(first_page, pages_end - first_page, MADV_DONTNEED) != 0) return zeros.zero_();
  std::memset(begin, 0, first_page - begin);
  std::memset(pages_end, 0, end - pages_end);
  return zeros;
}

}  // namespace fsdp
