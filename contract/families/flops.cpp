// Counts FLOPs of a batch from a family's parameters.
#include "contract/families/flops.h"

#include <algorithm>
#include <ranges>

#include "contract/families/family.h"

namespace fsdp {
namespace {

// The number of pairs of a token and a token that it attends to, in one causal row. Without a
// window it is half of all pairs, so the pair of a token with itself counts half.
double causal_pairs(int64_t tokens, std::optional<int64_t> window) {
  const auto length = static_cast<double>(tokens);
  const auto seen = static_cast<double>(std::min(tokens, window.value_or(tokens)));
  return seen * length - seen * seen / 2;
}

double causal_pairs(const ModelConfig& config, const BatchShape& shape) {
  if (shape.document_tokens.empty()) {
    return static_cast<double>(shape.rows) * causal_pairs(shape.tokens, config.sliding_window);
  }
  double pairs = 0;
  for (const int64_t tokens : shape.document_tokens) {
    pairs += causal_pairs(tokens, config.sliding_window);
  }
  return pairs;
}

double attention_flops(const ModelConfig& config, double pairs) {
  return 4 * pairs * static_cast<double>(config.num_attention_heads) *
         static_cast<double>(config.head_width());
}

bool has_parameter(const ModuleSpec& module, std::string_view name) {
  return std::ranges::find(module.parameters, name, &ParameterSpec::name) !=
         module.parameters.end();
}

// The block processes `tokens`. Its cross-attention reads `encoder_tokens`.
BlockFlops linear_flops(const ModuleSpec& block, double tokens, double encoder_tokens) {
  BlockFlops flops;
  for (const ParameterSpec& parameter : block.parameters) {
    const bool is_adapter = parameter.role == ParameterRole::kAdapter;
    if (parameter.role != ParameterRole::kWeight && !is_adapter) continue;
    const std::string name = parameter.name.substr(0, parameter.name.find("_lora_"));
    const double rows = name == "cross_key_value" ? encoder_tokens : tokens;
    const double products = 2 * rows * numel_of(parameter);
    if (!parameter.is_trained) flops.frozen += products;
    const bool is_last = name == "down" || name == "wo";
    if (is_last && !parameter.name.ends_with("_lora_a")) flops.last += products;
    if (name == "gate_up" || name == "wi") {
      flops.mlp += products;
    } else if (name.ends_with("query") || name.ends_with("key_value")) {
      flops.attention += products;
    } else {
      flops.outputs += products;
    }
  }
  return flops;
}

}  // namespace

double ForwardFlops::total() const {
  return static_cast<double>(blocks) * block.total() +
         static_cast<double>(decoder_blocks) * decoder_block.total() + head;
}

double ForwardFlops::frozen() const {
  return static_cast<double>(blocks) * block.frozen +
         static_cast<double>(decoder_blocks) * decoder_block.frozen + (is_head_frozen ? head : 0);
}

ForwardFlops forward_flops(const ModelConfig& config, const BatchShape& shape, Method method,
                           const LoraSpec& lora) {
  const ModelFamily& family = family_of(config);
  const bool has_encoder = family.structure == ModelStructure::kEncoderDecoder;
  const auto rows = static_cast<double>(shape.rows);
  const auto length = static_cast<double>(shape.tokens);
  const auto decoder_length = static_cast<double>(shape.decoder_tokens);
  const double tokens = rows * length;
  const double decoder_tokens = rows * decoder_length;
  ForwardFlops flops;
  for (const ModuleGroup& group : family.modules(config)) {
    const ModuleSpec module =
        method == Method::kFull ? group.module(0) : with_adapters(group.module(0), method, lora);
    if (!module.is_block) continue;
    if (has_parameter(module, "cross_query")) {
      flops.decoder_blocks += group.count;
      flops.decoder_block = linear_flops(module, decoder_tokens, tokens);
      const double pairs =
          rows * (causal_pairs(shape.decoder_tokens, std::nullopt) + decoder_length * length);
      flops.decoder_block.attention += attention_flops(config, pairs);
    } else {
      flops.blocks += group.count;
      flops.block = linear_flops(module, tokens, tokens);
      const double pairs = has_encoder ? rows * length * length : causal_pairs(config, shape);
      flops.block.attention += attention_flops(config, pairs);
    }
  }
  flops.is_head_frozen = method != Method::kFull;
  flops.head = 2 * (has_encoder ? decoder_tokens : tokens) *
               static_cast<double>(config.vocab_size) * static_cast<double>(config.hidden_size);
  return flops;
}

double model_flops(const ForwardFlops& forward) { return 3 * forward.total() - forward.frozen(); }

}  // namespace fsdp
