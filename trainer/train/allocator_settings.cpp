// Chooses settings of the GPU allocator. A setting of the user always wins.
#include "trainer/train/allocator_settings.h"

namespace fsdp {

AllocatorSettings choose_allocator_settings(const EnvironmentLookup& lookup,
                                            bool has_virtual_memory) {
  std::string users;
  for (const std::string name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const auto value = lookup(name);
    if (value) users += (users.empty() ? "" : " ") + name + "=" + *value;
  }
  if (!users.empty()) return {.ours = "", .in_force = users};
  const std::string ours = has_virtual_memory ? "expandable_segments:True" : "";
  return {.ours = ours, .in_force = ours};
}

}  // namespace fsdp
