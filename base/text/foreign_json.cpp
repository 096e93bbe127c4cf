// Fails early if there is no memory for a JSON text, because its parser would abort.
#include "base/text/foreign_json.h"

#include <sys/mman.h>

#include <new>

namespace fsdp {

void require_memory_for_json(size_t bytes, size_t values) {
  // A value takes 64 bytes in a list that grows or is destroyed, or 96 with a name. Text takes 48
  // more.
  constexpr size_t kBytesOfValue = 128;
  const size_t needed_bytes = 2 * bytes + values * kBytesOfValue;
  if (needed_bytes == 0) return;
  // Only asks: memory that nobody writes to costs nothing.
  void* const room = mmap(nullptr, needed_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  munmap(room, needed_bytes);
}

}  // namespace fsdp
