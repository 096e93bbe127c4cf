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
  kDecoder,         // see decoder.h
  kEncoderDecoder,  // see t5.h
};

// A published model: its config.json by a name.
struct Preset {
  std::string_view name;
  ModelConfig config;
};

struct ModelFamily {
  std::string_view architecture;  // as config.json names it
  std::string_view model_type;    // likewise
  ModelStructure structure;
  // The keys of ModelConfig that it takes and that not every family does.
  std::vector<std::string_view> own_keys;
  // Throws ConfigError when it is malformed, or asks for a variant that cannot be trained. Need not
  // check what `check` checks.
  ModelConfig (*read_config)(const HuggingFaceConfig& file);
  // A config.json that read_config and transformers read.
  nlohmann::ordered_json (*write_config)(const ModelConfig& config);
  // Throws ConfigError (place empty, key one of ModelConfig's) when keys contradict each other.
  void (*check)(const ModelConfig& config);
  // In the order of a forward. `config` has been checked.
  std::vector<ModuleGroup> (*modules)(const ModelConfig& config);
  // True if a checkpoint may hold this tensor although no module has it, whatever its values are.
  bool (*may_be_left)(std::string_view tensor);
  // The names under which checkpoints may hold the embedding's weights again, besides the head's.
  std::vector<std::string_view> embedding_copies{};
  std::vector<Preset> presets{};
};

std::span<const ModelFamily> families();

// Throws std::invalid_argument when there is no such family; the key allows only those there are.
const ModelFamily& family_of(const ModelConfig& config);

// Null when there is none of that name.
const Preset* find_preset(std::string_view name);
std::vector<std::string> preset_names();

// Whether the family takes that key of ModelConfig: others keep their default.
bool takes_key(const ModelFamily& family, std::string_view key);

// Reads a config.json of any family; what `file` has not read then, is read by nothing. Throws
// ConfigError (place: the file).
ModelConfig read_model_config(const HuggingFaceConfig& file);

// Throws ConfigError (place empty, key one of ModelConfig's, or empty) when no model can be made of
// it: keys contradict each other, or it would be too large.
void check_model_config(const ModelConfig& config);

void for_each_module(const ModelConfig& config,
                     const std::function<void(const ModuleSpec& module)>& visit);

// Exact up to kMostParameters, and rounded beyond, where an integer might overflow.
double parameter_count(const ModelConfig& config);

}  // namespace fsdp
