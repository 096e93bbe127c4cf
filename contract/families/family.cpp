// The table of families and presets. Refuses keys that a family does not take.
#include "contract/families/family.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "base/text/config_error.h"
#include "base/text/json.h"

namespace fsdp {
namespace {

// Lists the architectures, each name between `before` and `after`.
std::string known_architectures(const std::string& before, const std::string& after,
                                const std::string& separator = ", ") {
  std::string names;
  for (const ModelFamily& family : families()) {
    names += (names.empty() ? "" : separator) + before + std::string(family.architecture) + after;
  }
  return names;
}

// Null if there is no such family.
const ModelFamily* find_family(std::string_view architecture) {
  const auto found = std::ranges::find(families(), architecture, &ModelFamily::architecture);
  return found == families().end() ? nullptr : &*found;
}

double numel_of(const ModuleSpec& module) {
  double count = 0;
  for (const ParameterSpec& parameter : module.parameters) count += numel_of(parameter);
  return count;
}

// Refuses keys that the family does not take, unless they have their default.
void check_foreign_keys(const ModelFamily& family, const ModelConfig& config) {
  static const ModelConfig kDefault;
  std::vector<std::string> defaults;
  ModelConfig::visit_fields(kDefault, [&](const char*, const auto& member, auto&&...) {
    defaults.push_back(json_text(member));
  });
  auto by_default = defaults.begin();
  ModelConfig::visit_fields(config, [&](const char* key, const auto& member, auto&&...) {
    if (json_text(member) == *by_default++ || takes_key(family, key)) return;
    throw ConfigError("", key, "is not a key of " + config.architecture + "; leave it out");
  });
}

}  // namespace

std::span<const ModelFamily> families() {
  static const ModelFamily kFamilies[] = {
      llama_family(), mistral_family(), qwen2_family(), qwen3_family(), t5_family(),
  };
  return kFamilies;
}

Range known_architecture() {
  static const std::string kNames = known_architectures("", "");
  static const std::string kPattern = known_architectures("", "", "|");
  static const TextForm kForm{.description = kNames, .pattern = kPattern, .may_be_empty = false};
  return {.form = &kForm};
}

const ModelFamily& family_of(const ModelConfig& config) {
  const ModelFamily* family = find_family(config.architecture);
  if (!family) throw std::invalid_argument("no family of models is " + config.architecture);
  return *family;
}

// Throws if the weights are quantized in a way that method qlora does not read.
static void check_quantization(const HuggingFaceConfig& file) {
  const nlohmann::json found = file.find("quantization_config");
  if (found.is_null()) return;
  const nlohmann::json read = {{"quant_method", "bitsandbytes"},
                               {"load_in_4bit", true},
                               {"bnb_4bit_quant_type", "nf4"},
                               {"bnb_4bit_use_double_quant", true}};
  for (const auto& [key, value] : read.items()) {
    if (found.is_object() && found.contains(key) && found.at(key) == value) continue;
    file.refuse("", "has a quantization_config without " + key + ' ' + value.dump() +
                        ", so the weights are quantized in a way that cannot be read; allowed: NF4 "
                        "of bitsandbytes with double quantization, for method qlora. Otherwise "
                        "give the model that they were made from, or dequantize it in Python "
                        "(transformers: model.dequantize(), then model.save_pretrained(FOLDER, "
                        "save_original_format=False))");
  }
}

ModelConfig read_model_config(const HuggingFaceConfig& file) {
  check_quantization(file);
  const nlohmann::json architectures = file.find("architectures");
  const auto family = std::ranges::find_if(families(), [&](const ModelFamily& candidate) {
    return architectures == nlohmann::json::array({candidate.architecture});
  });
  if (family == families().end()) {
    file.refuse("architectures",
                "is " + architectures.dump() + "; allowed: " + known_architectures("[\"", "\"]"));
  }
  // AutoModel uses the class that model_type names.
  file.require_value("model_type", family->model_type);
  file.require_value("per_layer_config", nullptr);
  file.require_value("tie_encoder_decoder", false);
  const ModelConfig config = family->read_config(file);
  try {
    check_model_config(config);
  } catch (const ConfigError& error) {
    file.refuse(error.key(), error.problem());
  }
  return config;
}

const Preset* find_preset(std::string_view name) {
  for (const ModelFamily& family : families()) {
    const auto found = std::ranges::find(family.presets, name, &Preset::name);
    if (found != family.presets.end()) return &*found;
  }
  return nullptr;
}

const char* model_config_documentation() {
  static const std::string kText = [] {
    std::string text =
        "Architecture of a model with random weights from train.seed: keys, or the name of a "
        "published one, which `preset` is beside keys that differ:";
    const char* separator = " ";
    for (const std::string& name : preset_names()) {
      text += separator + name;
      separator = ", ";
    }
    return text + '.';
  }();
  return kText.c_str();
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelFamily& family : families()) {
    for (const Preset& preset : family.presets) names.emplace_back(preset.name);
  }
  return names;
}

bool takes_key(const ModelFamily& family, std::string_view key) {
  const auto owns = [&](const ModelFamily& any) {
    return std::ranges::find(any.own_keys, key) != any.own_keys.end();
  };
  return owns(family) || std::ranges::none_of(families(), owns);
}

void check_model_config(const ModelConfig& config) {
  const ModelFamily& family = family_of(config);
  check_foreign_keys(family, config);
  family.check(config);
  if (const double count = parameter_count(config); count > kMostParameters) {
    throw ConfigError("", "",
                      "asks for " + shortest(count) + " parameters; allowed: at most " +
                          std::to_string(kMostParameters));
  }
}

void for_each_module(const ModelConfig& config,
                     const std::function<void(const ModuleSpec& module)>& visit) {
  for (const ModuleGroup& group : family_of(config).modules(config)) {
    for (int64_t index = 0; index < group.count; ++index) visit(group.module(index));
  }
}

double parameter_count(const ModelConfig& config) {
  double count = 0;
  for (const ModuleGroup& group : family_of(config).modules(config)) {
    count += static_cast<double>(group.count) * numel_of(group.module(0));
  }
  return count;
}

}  // namespace fsdp
