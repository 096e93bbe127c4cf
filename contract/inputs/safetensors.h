#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contract/files/input_file.h"

// Files in the safetensors format (https://github.com/huggingface/safetensors), without libtorch:
// the runner checks them before it launches, the trainer maps them.
namespace fsdp {

// One tensor: where its bytes (row-major, little-endian) are.
struct SafetensorsEntry {
  std::string dtype;  // "F32", "BF16", "F16", ...
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const MappedFile> file;  // keeps `bytes` valid
};

// One file: its tensors by name, and the free text under its header's "__metadata__".
struct SafetensorsFile {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// Maps one file; nothing is copied. Throws ConfigError (place: the file) when it is missing, cut
// short, or its header is not well formed.
SafetensorsFile read_safetensors_file(const std::filesystem::path& file);

// The files of a model's folder: model.safetensors, or model.safetensors.index.json and the shards
// that it names. Throws ConfigError when neither exists or the index is not well formed.
std::vector<std::filesystem::path> safetensors_files(const std::filesystem::path& folder);

// All tensors by name of a model's folder: model.safetensors, or the shards that
// model.safetensors.index.json names. Nothing is copied. Throws ConfigError (place: the file) when
// a file is missing, cut short, or its header is not well formed.
std::map<std::string, SafetensorsEntry> read_safetensors(const std::filesystem::path& folder);

}  // namespace fsdp
