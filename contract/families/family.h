#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/families/hugging_face_config.h"
#include "contract/families/model_config.h"
#include "contract/families/module_spec.h"

// Families of models, without libtorch.
namespace fsdp {

// The most parameters that a model may have.
inline constexpr int64_t kMostParameters = 1'000'000'000'000'000;

// How a family computes, for the trainer (trainer/model/families.h).
enum class ModelStructure {
  kDecoder,         // see decoder.cpp
  kEncoderDecoder,  // see t5.cpp
};

// A published model: a name for its config.json.
struct Preset {
  std::string_view name;
  ModelConfig config;
};

// To add a family, such as qwen3_family: write a function that returns one, in
// contract/families/decoder.cpp or a file like contract/families/t5.cpp. List it below, and in
// contract/families/family.cpp. Checks of weights, parameter counts and checkpoints follow from its
// modules. trainer/model/decoder.cpp makes blocks of them; a new ModelStructure has a line in
// trainer/model/families.cpp. Tests: tests/contract/decoder_families_test.cpp (config.json),
// tests/trainer/model/decoder_test.cpp (a textbook version), tests/parity/checkpoints.py
// (transformers). docs/file-formats.md lists it.
struct ModelFamily {
  std::string_view architecture;  // as config.json names it
  std::string_view model_type;    // as config.json names it
  ModelStructure structure;
  // The keys of ModelConfig that this family takes and some other family does not.
  std::vector<std::string_view> own_keys;
  // Throws ConfigError if the file is malformed, or asks for a variant that cannot be trained. It
  // need not repeat the checks of `check`.
  ModelConfig (*read_config)(const HuggingFaceConfig& file);
  // Writes a config.json that read_config and transformers can read.
  nlohmann::ordered_json (*write_config)(const ModelConfig& config);
  // Throws ConfigError (place empty, key one of ModelConfig's) if keys contradict each other.
  void (*check)(const ModelConfig& config);
  // The modules in the order of a forward. `config` has been checked.
  std::vector<ModuleGroup> (*modules)(const ModelConfig& config);
  // True if a checkpoint may hold this tensor although no module has it. Its values do not matter.
  bool (*may_be_left)(std::string_view tensor);
  // Names of copies of the embedding's weights in checkpoints, besides the head's.
  std::vector<std::string_view> embedding_copies{};
  std::vector<Preset> presets{};
};

ModelFamily llama_family();
// Mistral 7B (Jiang et al. 2023). v0.1 attends within a sliding window.
ModelFamily mistral_family();
// Qwen2 and Qwen2.5 (Yang et al. 2024). The products of queries, keys and values have biases.
ModelFamily qwen2_family();
// Qwen3 (Yang et al. 2025). Query and key heads are normed.
ModelFamily qwen3_family();
// T5 (Raffel et al. 2020) and its version 1.1.
ModelFamily t5_family();

std::span<const ModelFamily> families();

// Throws std::invalid_argument if there is no such family. The key's range excludes that.
const ModelFamily& family_of(const ModelConfig& config);

// Null if there is no preset of that name.
const Preset* find_preset(std::string_view name);
std::vector<std::string> preset_names();

// True if the family takes that key of ModelConfig. Other keys keep their default.
bool takes_key(const ModelFamily& family, std::string_view key);

// Reads a config.json of any family. Afterwards, file.unread_keys() returns the keys that nothing
// reads. Throws ConfigError (place: the file).
ModelConfig read_model_config(const HuggingFaceConfig& file);

// Throws ConfigError (place empty, key one of ModelConfig's or empty) if keys contradict each
// other, or if the model would be too large.
void check_model_config(const ModelConfig& config);

void for_each_module(const ModelConfig& config,
                     const std::function<void(const ModuleSpec& module)>& visit);

// Exact up to kMostParameters. Rounded above, where an integer might overflow.
double parameter_count(const ModelConfig& config);

}  // namespace fsdp
