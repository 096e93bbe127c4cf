#pragma once

#include <filesystem>
#include <vector>

#include "contract/families/adapters.h"
#include "contract/families/model_config.h"
#include "formats/weights/safetensors.h"

// The weights in a folder, as transformers' and PEFT's save_pretrained write them.
//
// To add a format of weights: add its line of kFormats in formats/weights/weights.cpp, hostile
// files in tests/hostile/kinds/, and a fuzzer in tests/fuzz/.
namespace fsdp {

// The weights that are read of a folder, which may have both. The first of these files that exists
// is read, or its index with the shards that it names.
enum class WeightsOf {
  kModel,    // model.safetensors, pytorch_model.bin
  kAdapter,  // adapter_model.safetensors, adapter_model.bin
};

// The files of the weights, an index before its shards. Throws ConfigError (place: the folder or
// the index) if there are none or the index is malformed.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder,
                                                WeightsOf of = WeightsOf::kModel);

// The places of all tensors; their bytes are not read yet. Throws ConfigError (place: the file) if
// a file is missing, cut short or damaged.
StoredTensors read_weights(const std::filesystem::path& folder, WeightsOf of = WeightsOf::kModel);

// Throws ConfigError unless `stored` holds the tensor, with its shape, in a dtype that can be read.
// `asker` is the name, in messages, of what requires the tensor.
void check_tensor(const std::filesystem::path& folder, const StoredTensors& stored,
                  const NamedTensor& tensor, const std::string& asker);
[[noreturn]] void refuse_tensor(const std::filesystem::path& folder, const std::string& name,
                                const std::string& problem);

// Returns `config`, with the head untied if the folder holds a head that differs from the
// embedding. transformers does the same, whatever config.json says. Throws ConfigError as
// read_weights does.
ModelConfig with_stored_head(const std::filesystem::path& folder, ModelConfig config);

// Throws ConfigError unless PEFT's folder holds the adapters that `lora` describes: its settings,
// and the names, shapes and dtypes of its tensors. PEFT's own settings must agree with the tensors.
void check_adapter(const std::filesystem::path& folder, const ModelConfig& config,
                   const LoraSpec& lora);

// Throws ConfigError unless names, shapes and dtypes fit the architecture and the method. Values
// are not checked, except that copies of the embedding must equal it.
void check_weights(const std::filesystem::path& folder, const ModelConfig& config,
                   Method method = Method::kFull);

}  // namespace fsdp
