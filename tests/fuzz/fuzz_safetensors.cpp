#include <cstdlib>

#include "formats/weights/safetensors.h"
#include "tests/fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fsdp::fuzz_reader(data, size, [](std::span<const std::byte> bytes) {
    const auto file = std::make_shared<const fsdp::InputFile>("input", bytes);
    for (const auto& [name, tensor] : fsdp::read_safetensors(file).tensors) {
      if (tensor.offset > bytes.size() || tensor.size_bytes > bytes.size() - tensor.offset) {
        std::abort();
      }
    }
  });
}
