#include <cstdlib>

#include "contract/inputs/torch_file.h"
#include "tests/fuzz/reader.h"

// The archive; its pickle, whose checksum hardly any change leaves right, has fuzz_unpickler.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fsdp::fuzz_reader(data, size, [](std::span<const std::byte> bytes) {
    for (const auto& [name, tensor] : fsdp::read_torch_bytes("input", bytes)) {
      const auto begin = static_cast<size_t>(tensor.bytes.data() - bytes.data());
      if (begin + tensor.bytes.size() > bytes.size()) std::abort();
    }
  });
}
