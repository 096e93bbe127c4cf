// Checks a folder of PEFT. A key of adapter_config.json that is not understood must be neutral, so
// that newer kinds of adapters are refused.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files/input_file.h"
#include "contract/families/adapters.h"
#include "contract/families/family.h"
#include "formats/weights/weights.h"

namespace fsdp {
namespace {

using nlohmann::json;
using std::filesystem::path;

// Keys that change neither the weights nor what the adapters compute of them. Some matter only to
// initial values, or only with a key that must be neutral.
constexpr std::array kIdleKeys{"auto_mapping",   "base_model_name_or_path",
                               "corda_config",   "eva_config",
                               "loftq_config",   "inference_mode",
                               "lora_dropout",   "lora_ga_config",
                               "megatron_core",  "peft_version",
                               "runtime_config", "qalora_group_size",
                               "revision"};

// Understood keys and the values that they may have. The first value is PEFT's default. Other
// initial weights change the model's weights, or which factor is trained.
const json kAllowedValues = json::parse(R"({
  "peft_type": ["LORA"],
  "bias": ["none"],
  "task_type": [null, "CAUSAL_LM", "SEQ_2_SEQ_LM", "FEATURE_EXTRACTION"],
  "init_lora_weights": [true, false, "gaussian", "eva", "orthogonal"]})");

bool is_neutral(const json& value) {
  return value.is_null() || value == false || value == "" ||
         (value.is_structured() && value.empty());
}

// The settings of adapters in PEFT's adapter_config.json.
class AdapterConfig {
 public:
  explicit AdapterConfig(const path& folder)
      : file_(folder / "adapter_config.json"),
        object_(parse_json_object(file_, read_input_file(file_))) {}

  // Refuses kinds of adapters that have the same tensors, but compute otherwise or belong to
  // changed weights.
  void require_plain_lora() const {
    std::set<std::string> known{"r", "lora_alpha", "use_rslora", "target_modules"};
    known.insert(kIdleKeys.begin(), kIdleKeys.end());
    for (const auto& [key, allowed] : kAllowedValues.items()) {
      known.insert(key);
      const json value = object_.value(key, allowed.front());
      if (std::ranges::find(allowed, value) == allowed.end()) refuse_kind(key, value);
    }
    for (const auto& [key, value] : object_.items()) {
      if (!known.contains(key) && !is_neutral(value)) refuse_kind(key, value);
    }
  }

  void require_settings(const LoraSpec& lora) const {
    const auto require = [&](const char* key, const json& by_default, const json& value,
                             const char* of_run) {
      const json found = object_.value(key, by_default);
      if (found == value) return;
      refuse_file(file_, "has " + std::string(key) + ' ' + found.dump() + ", but " + of_run +
                             " is " + value.dump());
    };
    require("r", 8, lora.rank, "lora.rank");
    require("lora_alpha", 8, lora.alpha, "lora.alpha");
    require("use_rslora", false, lora.use_rslora, "lora.use_rslora");
  }

  // Refuses target_modules that name other weights than those with adapters in `tensors`.
  void require_targets(const ModelConfig& config, const std::set<std::string>& tensors) const {
    const json targets = object_.value("target_modules", json());
    const bool is_all = targets == "all-linear";
    if (targets.is_string() && !is_all) return;  // a regular expression of Python
    if (!is_all && !targets.is_array()) {
      refuse_file(file_, "has target_modules " + targets.dump() +
                             "; allowed: a list of names such as [\"q_proj\"], a regular "
                             "expression, or \"all-linear\"");
    }
    for_each_module(config, [&](const ModuleSpec& module) {
      for (const ParameterSpec& parameter : module.parameters) {
        for (const NamedTensor& tensor : parameter.tensors) {
          if (!tensor.name.ends_with(".weight")) continue;
          const std::string stem = tensor.name.substr(0, tensor.name.rfind('.'));
          const bool is_linear = module.is_block && parameter.role == ParameterRole::kWeight;
          const bool is_named = is_all ? is_linear : is_in(targets, stem);
          const bool is_adapted = tensors.contains(kAdapterPrefix + stem + ".lora_A.weight");
          if (is_named == is_adapted) continue;
          refuse_file(file_, "has target_modules " + targets.dump() + ", which " +
                                 (is_named ? "name " : "do not name ") + stem +
                                 ", but the folder holds " + (is_adapted ? "" : "no ") +
                                 "adapters of it; one of the two was changed: take the folder as "
                                 "PEFT saved it");
        }
      }
    });
  }

 private:
  // PEFT adapts a module if the list has its name, or the last part of its name.
  static bool is_in(const json& names, const std::string& module) {
    return std::ranges::any_of(names, [&](const json& each) {
      const std::string name = each.is_string() ? each.get<std::string>() : "";
      return module == name || module.ends_with('.' + name);
    });
  }

  [[noreturn]] void refuse_kind(const std::string& key, const json& value) const {
    refuse_file(file_, "has " + key + ' ' + value.dump() +
                           ", which is another kind of adapter; only plain LoRA can be read: merge "
                           "these adapters with PEFT (merge_and_unload, then save_pretrained), and "
                           "give the merged folder as model.source");
  }

  path file_;
  json object_;
};

}  // namespace

void check_adapter(const path& folder, const ModelConfig& config, const LoraSpec& lora) {
  const AdapterConfig adapter(folder);
  adapter.require_plain_lora();
  adapter.require_settings(lora);
  const StoredTensors stored = read_weights(folder, WeightsOf::kAdapter);
  std::set<std::string> expected;
  for_each_module(config, Method::kLora, lora, [&](const ModuleSpec& module) {
    for (const ParameterSpec& parameter : module.parameters) {
      if (parameter.role != ParameterRole::kAdapter) continue;
      for (const NamedTensor& tensor : parameter.tensors) {
        check_tensor(folder, stored, tensor, "lora");
        expected.insert(tensor.name);
      }
    }
  });
  for (const auto& [name, tensor] : stored) {
    if (!expected.contains(name)) {
      refuse_tensor(folder, name,
                    "is no adapter of lora.targets; give the targets that the folder has");
    }
  }
  adapter.require_targets(config, expected);
}

}  // namespace fsdp
