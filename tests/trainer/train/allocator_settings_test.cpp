#include "trainer/train/allocator_settings.h"

#include <catch2/catch.hpp>
#include <map>

namespace fsdp::allocator_settings_test {

AllocatorSettings settings_with(const std::map<std::string, std::string>& variables,
                                bool has_virtual_memory = true) {
  const auto lookup = [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return choose_allocator_settings(lookup, has_virtual_memory);
}

TEST_CASE("segments of GPU memory grow where the GPU can do that") {
  const std::string growing = "expandable_segments:True";
  CHECK(settings_with({{"PYTORCH_OTHER", "1"}}) == AllocatorSettings{growing, growing});
  CHECK(settings_with({}, false) == AllocatorSettings{});
}

TEST_CASE("the user's settings of the allocator of GPU memory stay") {
  const std::string off = "PYTORCH_ALLOC_CONF=expandable_segments:False";
  CHECK(settings_with({{"PYTORCH_ALLOC_CONF", "expandable_segments:False"}}) ==
        AllocatorSettings{"", off});
  CHECK(settings_with({{"PYTORCH_CUDA_ALLOC_CONF", ""}}) ==
        AllocatorSettings{"", "PYTORCH_CUDA_ALLOC_CONF="});
  CHECK(settings_with({{"PYTORCH_ALLOC_CONF", "a:1"}, {"PYTORCH_CUDA_ALLOC_CONF", "b:2"}}, false) ==
        AllocatorSettings{"", "PYTORCH_ALLOC_CONF=a:1 PYTORCH_CUDA_ALLOC_CONF=b:2"});
}

}  // namespace fsdp::allocator_settings_test
