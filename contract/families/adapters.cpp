// Adds the adapters of LoRA to a family's modules, under PEFT's names.
#include "contract/families/adapters.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text/config_error.h"
#include "contract/families/family.h"

namespace fsdp {
namespace {

constexpr std::string_view kWeightSuffix = ".weight";

// Returns "model.layers.0.self_attn.q_proj" for "model.layers.0.self_attn.q_proj.weight".
std::string stem_of(const NamedTensor& tensor) {
  return tensor.name.substr(0, tensor.name.size() - kWeightSuffix.size());
}

std::string last_name_of(const NamedTensor& tensor) {
  const std::string stem = stem_of(tensor);
  return stem.substr(stem.rfind('.') + 1);
}

// A word that stands for several weights of a block.
struct Group {
  std::string_view name;
  bool (*holds)(std::string_view tensor);
};

constexpr Group kGroups[] = {
    {"all-linear", [](std::string_view) { return true; }},
    {"attention",
     [](std::string_view tensor) {
       return tensor.find(".self_attn.") != tensor.npos || tensor.find("Attention.") != tensor.npos;
     }},
    {"mlp", [](std::string_view tensor) {
       return tensor.find(".mlp.") != tensor.npos || tensor.find(".DenseReluDense.") != tensor.npos;
     }}};

bool is_meant(const std::string& target, const NamedTensor& tensor) {
  const auto group = std::ranges::find(kGroups, target, &Group::name);
  return group == std::end(kGroups) ? last_name_of(tensor) == target : group->holds(tensor.name);
}

bool is_target(const NamedTensor& tensor, const LoraSpec& lora) {
  return std::ranges::any_of(lora.targets,
                             [&](const std::string& target) { return is_meant(target, tensor); });
}

bool has_targets(const ModuleSpec& module, const ParameterSpec& parameter) {
  return module.is_block && parameter.role == ParameterRole::kWeight;
}

// Calls visit(tensor) for each weight of each kind of block.
template <typename Visit>
void for_each_weight_of_blocks(const ModelConfig& config, Visit visit) {
  for (const ModuleGroup& group : family_of(config).modules(config)) {
    const ModuleSpec module = group.module(0);
    for (const ParameterSpec& parameter : module.parameters) {
      for (const NamedTensor& tensor : parameter.tensors) {
        if (has_targets(module, parameter)) visit(tensor);
      }
    }
  }
}

// PEFT draws A from a uniform distribution (kaiming_uniform with a = sqrt(5)) of this deviation.
double deviation_of_a(int64_t inputs) { return 1 / std::sqrt(3.0 * static_cast<double>(inputs)); }

}  // namespace

double adapter_scale(const LoraSpec& lora) {
  const auto rank = static_cast<double>(lora.rank);
  return lora.alpha / (lora.use_rslora ? std::sqrt(rank) : rank);
}

ModuleSpec with_adapters(ModuleSpec module, Method method, const LoraSpec& lora) {
  module.adapter_scale = adapter_scale(lora);
  module.adapter_dropout = lora.dropout;
  std::vector<ParameterSpec> parameters;
  for (ParameterSpec& parameter : module.parameters) {
    ParameterSpec a = weight_spec(parameter.name + "_lora_a", {}, 0);
    ParameterSpec b{.name = parameter.name + "_lora_b",
                    .tensors = {},
                    .initialization = Initialization::kZeros};
    a.role = b.role = ParameterRole::kAdapter;
    for (const NamedTensor& tensor : parameter.tensors) {
      if (!has_targets(module, parameter) || !is_target(tensor, lora)) continue;
      const std::string stem = kAdapterPrefix + stem_of(tensor);
      a.standard_deviation = deviation_of_a(tensor.shape[1]);
      a.tensors.push_back({stem + ".lora_A.weight", {lora.rank, tensor.shape[1]}});
      b.tensors.push_back({stem + ".lora_B.weight", {tensor.shape[0], lora.rank}});
    }
    parameter.is_trained = false;
    parameter.is_quantized =
        method == Method::kQlora && parameter.is_quantizable && has_targets(module, parameter);
    parameters.push_back(std::move(parameter));
    if (a.tensors.empty()) continue;
    parameters.push_back(std::move(a));
    parameters.push_back(std::move(b));
  }
  module.parameters = std::move(parameters);
  return module;
}

std::vector<std::string> adapted_names(const ModelConfig& config, const LoraSpec& lora) {
  std::set<std::string> names;
  for_each_weight_of_blocks(config, [&](const NamedTensor& tensor) {
    if (is_target(tensor, lora)) names.insert(last_name_of(tensor));
  });
  return {names.begin(), names.end()};
}

void check_adapters(const ModelConfig& config, const LoraSpec& lora) {
  std::set<std::string> known;
  for_each_weight_of_blocks(config,
                            [&](const NamedTensor& tensor) { known.insert(last_name_of(tensor)); });
  std::string allowed = "all-linear, attention, mlp";
  for (const std::string& name : known) allowed += ", " + name;
  if (lora.targets.empty()) {
    throw ConfigError("", "lora.targets", "is empty, so nothing would be trained");
  }
  for (const std::string& target : lora.targets) {
    if (known.contains(target) ||
        std::ranges::find(kGroups, target, &Group::name) != std::end(kGroups)) {
      continue;
    }
    throw ConfigError("", "lora.targets",
                      "'" + target + "' is no weight of " + config.architecture +
                          "'s blocks; allowed: " + allowed);
  }
  for_each_weight_of_blocks(config, [&](const NamedTensor& tensor) {
    const int64_t width = std::min(tensor.shape[0], tensor.shape[1]);
    if (!is_target(tensor, lora) || lora.rank <= width) return;
    throw ConfigError("", "lora.rank",
                      std::to_string(lora.rank) + " is above the width of " + last_name_of(tensor) +
                          "; allowed: at most " + std::to_string(width));
  });
}

void for_each_module(const ModelConfig& config, Method method, const LoraSpec& lora,
                     const std::function<void(const ModuleSpec& module)>& visit) {
  for_each_module(config, [&](const ModuleSpec& module) {
    method == Method::kFull ? visit(module) : visit(with_adapters(module, method, lora));
  });
}

double trained_parameter_count(const ModelConfig& config, Method method, const LoraSpec& lora) {
  if (method == Method::kFull) return parameter_count(config);
  double count = 0;
  for (const ModuleGroup& group : family_of(config).modules(config)) {
    for (const ParameterSpec& parameter : with_adapters(group.module(0), method, lora).parameters) {
      if (parameter.is_trained) count += static_cast<double>(group.count) * numel_of(parameter);
    }
  }
  return count;
}

}  // namespace fsdp
