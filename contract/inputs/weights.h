#pragma once

#include <filesystem>
#include <vector>

#include "contract/families/model_config.h"
#include "contract/inputs/stored_tensor.h"

// The weights in a model's folder, as transformers' save_pretrained writes them: the first there is
// of model.safetensors, model.safetensors.index.json with the shards that it names,
// pytorch_model.bin and pytorch_model.bin.index.json with its shards.
namespace fsdp {

// The files they are in, an index before its shards. Throws ConfigError (place: the folder or the
// index) when there are none, or the index is not well formed.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder);

// All tensors, of which nothing is read yet but where they are. Throws ConfigError (place: the
// file) when one is missing, cut short or damaged.
StoredTensors read_weights(const std::filesystem::path& folder);

// Returns `config`, whose head is not tied if the folder holds a head that differs from the
// embedding. transformers decides so, too, whatever config.json says. Throws ConfigError as
// read_weights does.
ModelConfig with_stored_head(const std::filesystem::path& folder, ModelConfig config);

// Throws ConfigError when they are not those of the architecture: names, shapes and dtypes. Values
// are not looked at.
void check_weights(const std::filesystem::path& folder, const ModelConfig& config);

}  // namespace fsdp
