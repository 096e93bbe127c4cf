#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "contract/inputs/stored_tensor.h"

// Reads files in the safetensors format (https://github.com/huggingface/safetensors) without
// libtorch. The runner checks them before it launches, and the trainer reads them.
namespace fsdp {

// One file: its tensors, and the free text under its header's "__metadata__".
struct SafetensorsFile {
  StoredTensors tensors;
  std::map<std::string, std::string> metadata;
};

// Reads the header of one file. Throws ConfigError (place: the file) if it is missing, cut short or
// malformed.
SafetensorsFile read_safetensors_file(const std::filesystem::path& file);
SafetensorsFile read_safetensors(const std::shared_ptr<const InputFile>& file);

}  // namespace fsdp
