#include <cstdlib>

#include "formats/weights/torch_file.h"
#include "tests/fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fsdp::fuzz_reader(data, size, [](std::span<const std::byte> bytes) {
    const std::string_view pickle(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (const auto& [name, tensor] : fsdp::read_pickled_tensors("input", pickle)) {
      const auto items = fsdp::tensor_bytes(tensor.shape, 1);
      if (!items || tensor.first_item + *items > tensor.storage_items) std::abort();
      if (!fsdp::item_bytes(tensor.dtype)) std::abort();
    }
  });
}
