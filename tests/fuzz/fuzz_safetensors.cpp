#include <cstdlib>

#include "contract/inputs/safetensors.h"
#include "tests/fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fsdp::fuzz_reader(data, size, [](std::span<const std::byte> bytes) {
    for (const auto& [name, tensor] : fsdp::read_safetensors_bytes("input", bytes).tensors) {
      const auto begin = static_cast<size_t>(tensor.bytes.data() - bytes.data());
      if (begin + tensor.bytes.size() > bytes.size()) std::abort();
    }
  });
}
