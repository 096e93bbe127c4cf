#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

// Files in the safetensors format (https://github.com/huggingface/safetensors), without libtorch:
// the runner checks them before it launches, the trainer maps them.
namespace fsdp {

// A file mapped read-only; the mapping lives as long as the object.
class MappedFile {
 public:
  // Throws std::system_error.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// One tensor: where its bytes (row-major, little-endian) are.
struct SafetensorsEntry {
  std::string dtype;  // "F32", "BF16", "F16", ...
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const MappedFile> file;  // keeps `bytes` valid
};

// All tensors by name of a model's folder: model.safetensors, or the shards that
// model.safetensors.index.json names. Nothing is copied. Throws ConfigError (place: the file) when a
// file is missing, cut short, or its header is not well formed.
std::map<std::string, SafetensorsEntry> read_safetensors(const std::filesystem::path& folder);

}  // namespace fsdp
