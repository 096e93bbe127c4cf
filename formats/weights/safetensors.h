#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/input_file.h"

// Reads files in the safetensors format (https://github.com/huggingface/safetensors) without
// libtorch. The runner checks them before it launches, and the trainer reads them.
namespace fsdp {

// The place of a tensor's bytes (row-major, little-endian) in a file. read() reads them.
struct StoredTensor {
  std::string dtype;  // as safetensors names it: "F32", "BF16", "F16", ...
  std::vector<int64_t> shape;
  std::shared_ptr<const InputFile> file;
  uint64_t offset = 0;  // in the file
  uint64_t size_bytes = 0;

  // Fills `out` with the tensor's bytes from `begin` on. Throws ConfigError as InputFile::read
  // does.
  void read(uint64_t begin, std::span<std::byte> out) const { file->read(offset + begin, out); }
};

using StoredTensors = std::map<std::string, StoredTensor>;  // by name

// The bytes of one element; nullopt if there is no such dtype.
std::optional<uint64_t> item_bytes(std::string_view dtype);

// The size in bytes of a tensor; nullopt if it overflows. No size in `shape` is negative.
std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& shape, uint64_t item_bytes);

// One file: its tensors, and the free text under its header's "__metadata__".
struct SafetensorsFile {
  StoredTensors tensors;
  std::map<std::string, std::string> metadata;
};

// Reads the file's header. Throws ConfigError (place: the file) if it is cut short or malformed.
SafetensorsFile read_safetensors(const std::shared_ptr<const InputFile>& file);

}  // namespace fsdp
