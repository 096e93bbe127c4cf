#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "contract/inputs/stored_tensor.h"

// Files in the safetensors format (https://github.com/huggingface/safetensors), without libtorch:
// the runner checks them before it launches, the trainer maps them.
namespace fsdp {

// One file: its tensors, and the free text under its header's "__metadata__".
struct SafetensorsFile {
  StoredTensors tensors;
  std::map<std::string, std::string> metadata;
};

// Maps one file; nothing is copied. Throws ConfigError (place: the file) when it is missing, cut
// short, or its header is not well formed.
SafetensorsFile read_safetensors_file(const std::filesystem::path& file);

// The same of a file's bytes, which the caller keeps. `file` is what an error names.
SafetensorsFile read_safetensors_bytes(const std::filesystem::path& file,
                                       std::span<const std::byte> bytes);

}  // namespace fsdp
