#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "trainer/memory/counting_allocator.h"
#include "trainer/memory/memory_label.h"

namespace fsdp::loaded_library_test {

// The kernel library is loaded beside the program. Both contain trainer/memory/.

template <typename T>
T find(void* library, const char* symbol) {
  void* const found = dlsym(library, symbol);
  INFO(symbol);
  REQUIRE(found != nullptr);
  return reinterpret_cast<T>(found);
}

TEST_CASE("a loaded kernel library counts memory as the program that loads it",
          "[transformer_engine]") {
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path() /
                    "lib/libtransformer_engine_kernels.so";
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  INFO(file);
  REQUIRE(library != nullptr);

  CHECK(find<CountingAllocator*>(library, "_ZZN4fsdp17CountingAllocator8instanceEvE9allocator") ==
        &CountingAllocator::instance());

  const bool* const is_uncounted = find<bool*>(library, "_ZN4fsdp15UncountedMemory6is_on_E");
  CHECK_FALSE(*is_uncounted);
  const UncountedMemory workspace;
  CHECK(*is_uncounted);

  const auto* const label = find<MemoryLabel*>(library, "_ZN4fsdp11MemoryScope6label_E");
  const MemoryScope third_unit(3, MemoryUse::kOther);
  CHECK(label->unit == 3);
}

}  // namespace fsdp::loaded_library_test
