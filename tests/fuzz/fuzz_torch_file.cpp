#include <cstdlib>

#include "formats/weights/torch_file.h"
#include "tests/fuzz/reader.h"

// Fuzzes the archive. A changed pickle fails its checksum here, so fuzz_unpickler fuzzes pickles.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fsdp::fuzz_reader(data, size, [](std::span<const std::byte> bytes) {
    const auto file = std::make_shared<const fsdp::InputFile>("input", bytes);
    for (const auto& [name, tensor] : fsdp::read_torch(file)) {
      if (tensor.offset > bytes.size() || tensor.size_bytes > bytes.size() - tensor.offset) {
        std::abort();
      }
    }
  });
}
