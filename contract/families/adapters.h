#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "contract/families/model_config.h"
#include "contract/families/module_spec.h"

// The adapters of LoRA (Hu et al. 2021) on the weights of a model's blocks. A parameter <name> of
// tensors <stem>.weight [O, D] gets two parameters. Their tensors have PEFT's names:
//
//   <name>_lora_a   <stem>.lora_A.weight [rank, D]
//   <name>_lora_b   <stem>.lora_B.weight [O, rank]
namespace fsdp {

enum class Method { kFull, kLora, kQlora };

constexpr auto enum_names(Method) { return std::array{"full"sv, "lora"sv, "qlora"sv}; }

// The biases that are trained with adapters, as in PEFT's key of this name.
enum class AdapterBias { kNone };

constexpr auto enum_names(AdapterBias) { return std::array{"none"sv}; }

// Low-rank adaptation (Hu et al. 2021): y = W x + scale * B (A x), with frozen weights W.
struct LoraSpec {
  int64_t rank = 8;
  double alpha = 16.0;
  double dropout = 0.0;
  TextList targets = {"all-linear"};
  AdapterBias bias = AdapterBias::kNone;
  bool use_rslora = false;
  std::filesystem::path adapter;

  bool operator==(const LoraSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("rank", self.rank, "Columns of B and rows of A.", from_to(1, 1e5));
    visit("alpha", self.alpha, "The scale is alpha / rank.", above_to(0, 1e6));
    visit("dropout", self.dropout,
          "Probability that an element that A reads is dropped; weights that read the same share "
          "the choice.",
          from_to_below(0, 1));
    visit("targets", self.targets,
          "The weights of blocks that get adapters: names such as q_proj; attention; mlp; "
          "all-linear.");
    visit("bias", self.bias, "The biases that are trained.");
    visit("use_rslora", self.use_rslora,
          "Whether the scale is alpha / sqrt(rank) (Kalajdzievski 2023).");
    visit("adapter", self.adapter,
          "Folder of PEFT with the adapters to begin with; absent: A random, B zero.");
  }
};

// Returns the scale of B A.
double adapter_scale(const LoraSpec& lora);

inline constexpr const char* kAdapterPrefix = "base_model.model.";

// Freezes the module's parameters and adds adapters. kQlora (Dettmers et al. 2023) also quantizes
// the weights of blocks.
ModuleSpec with_adapters(ModuleSpec module, Method method, const LoraSpec& lora);

// Returns the weights that get adapters, by their last names, such as {"k_proj", "q_proj"}.
std::vector<std::string> adapted_names(const ModelConfig& config, const LoraSpec& lora);

// Throws ConfigError (place empty, key of `lora`) if there are no targets, a target names no weight
// of a block, or the rank exceeds an adapted weight's width.
void check_adapters(const ModelConfig& config, const LoraSpec& lora);

// Visits the modules as `method` trains them.
void for_each_module(const ModelConfig& config, Method method, const LoraSpec& lora,
                     const std::function<void(const ModuleSpec& module)>& visit);

// The number of parameters that are trained, including adapters. parameter_count() leaves adapters
// out.
double trained_parameter_count(const ModelConfig& config, Method method, const LoraSpec& lora);

}  // namespace fsdp
