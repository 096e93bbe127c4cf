#pragma once

#include <filesystem>
#include <vector>

#include "contract/families/adapters.h"
#include "contract/families/model_config.h"
#include "formats/weights/safetensors.h"

// The weights in a model's folder, as transformers' save_pretrained writes them. The first of these
// that exists is read: model.safetensors, model.safetensors.index.json with its shards,
// pytorch_model.bin, pytorch_model.bin.index.json with its shards, adapter_model.safetensors
// (PEFT's adapters).
namespace fsdp {

// The files of the weights, an index before its shards. Throws ConfigError (place: the folder or
// the index) if there are none or the index is malformed.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder);

// The places of all tensors; their bytes are not read yet. Throws ConfigError (place: the file) if
// a file is missing, cut short or damaged.
StoredTensors read_weights(const std::filesystem::path& folder);

// Returns `config`, with the head untied if the folder holds a head that differs from the
// embedding. transformers does the same, whatever config.json says. Throws ConfigError as
// read_weights does.
ModelConfig with_stored_head(const std::filesystem::path& folder, ModelConfig config);

// Throws ConfigError unless PEFT's folder holds the adapters that `lora` describes: its settings,
// and the names, shapes and dtypes of its tensors.
void check_adapter(const std::filesystem::path& folder, const ModelConfig& config,
                   const LoraSpec& lora);

// Throws ConfigError unless names, shapes and dtypes fit the architecture and the method. Values
// are not checked, except that copies of the embedding must equal it.
void check_weights(const std::filesystem::path& folder, const ModelConfig& config,
                   Method method = Method::kFull);

}  // namespace fsdp
