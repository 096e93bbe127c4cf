#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "contract/families/family.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;
using Json = nlohmann::json;

Json small_json(const std::string& architecture) {
  return {{"architectures", {architecture}},
          {"num_hidden_layers", 2},
          {"hidden_size", 24},
          {"intermediate_size", 40},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 50}};
}

ModelConfig read(const Json& object) {
  return read_model_config(HuggingFaceConfig("config.json", object));
}

ModelConfig read_with(const std::string& architecture, const Json& more) {
  Json object = small_json(architecture);
  object.update(more);
  return read(object);
}

std::string refusal_of(const std::string& architecture, const Json& more) {
  return refusal([&] { read_with(architecture, more); });
}

const Json kLlama3Rope = {{"rope_type", "llama3"},
                          {"factor", 32.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};

TEST_CASE("what a family's config.json leaves out is as its class of transformers has it") {
  CHECK(read(small_json("MistralForCausalLM")).sliding_window == 4096);
  CHECK(read(small_json("MistralForCausalLM")).max_position_embeddings == 131072);
  CHECK_FALSE(read_with("MistralForCausalLM", {{"sliding_window", nullptr}}).sliding_window);
  CHECK_FALSE(read_with("Qwen2ForCausalLM", {{"sliding_window", 32}}).sliding_window);
  CHECK(read(small_json("Qwen2ForCausalLM")).head_width() == 6);
  CHECK(read(small_json("Qwen3ForCausalLM")).head_width() == 128);
}

TEST_CASE("Llama 3.1's rope scaling is read from versions 4 and 5 of transformers") {
  const RopeScaling expected{RopeType::kLlama3, 32, 1, 4, 8192};
  const ModelConfig of_4 =
      read_with("LlamaForCausalLM", {{"rope_scaling", kLlama3Rope}, {"rope_theta", 5e5}});
  CHECK(of_4.rope_scaling == expected);
  CHECK(of_4.rope_theta == 5e5);
  Json parameters = kLlama3Rope;
  parameters["rope_theta"] = 5e5;
  CHECK(read_with("LlamaForCausalLM", {{"rope_parameters", parameters}}) == of_4);
}

TEST_CASE("a config.json that is written is read as what it was, in every family of decoders") {
  for (const ModelFamily& family : families()) {
    if (family.structure != ModelStructure::kDecoder) continue;
    INFO(family.architecture);
    ModelConfig config{.architecture = std::string(family.architecture), .rms_norm_eps = 1e-4};
    const auto set = [&](const char* key, auto change) {
      if (takes_key(family, key)) change();
    };
    set("attention_bias", [&] { config.attention_bias = true; });
    set("mlp_bias", [&] { config.mlp_bias = true; });
    set("rope_scaling", [&] { config.rope_scaling = {RopeType::kLinear, 2}; });
    for (const auto window : {std::optional<int64_t>(), std::optional<int64_t>(9)}) {
      set("sliding_window", [&] { config.sliding_window = window; });
      ModelConfig expected = config;
      expected.head_dim = config.head_width();
      CHECK(read(Json(family.write_config(config))) == expected);
    }
  }
}

TEST_CASE("a key of another family is refused") {
  const auto refusal_of_config = [](const ModelConfig& config) {
    return refusal([&] { check_model_config(config); });
  };
  CHECK(refusal_of_config({.sliding_window = 64}) ==
        "'sliding_window': is not a key of LlamaForCausalLM; leave it out");
  CHECK(refusal_of_config({.architecture = "MistralForCausalLM", .mlp_bias = true}) ==
        "'mlp_bias': is not a key of MistralForCausalLM; leave it out");
  CHECK_NOTHROW(check_model_config({.architecture = "MistralForCausalLM", .sliding_window = 64}));
}

TEST_CASE("variants that are not built are refused by name") {
  CHECK_NOTHROW(read_with("Qwen2ForCausalLM", {{"use_sliding_window", true}}));
  CHECK_THAT(
      refusal_of("Qwen2ForCausalLM", {{"use_sliding_window", true}, {"max_window_layers", 1}}),
      Contains("'use_sliding_window': true gives the layers from max_window_layers on a window"));
  CHECK_THAT(
      refusal_of("Qwen3ForCausalLM", {{"layer_types", {"full_attention", "sliding_attention"}}}),
      Contains("'layer_types': \"sliding_attention\" is not supported"));
  CHECK_THAT(refusal_of("LlamaForCausalLM", {{"rope_scaling", {{"type", "yarn"}}}}),
             Contains("'rope_scaling.rope_type': \"yarn\" is not supported"));
  Json rope = kLlama3Rope;
  rope["low_freq_factor"] = 4;
  CHECK_THAT(refusal_of("LlamaForCausalLM", {{"rope_scaling", rope}}),
             Contains("'rope_scaling.low_freq_factor': 4 is not below high_freq_factor 4"));
}

}  // namespace
}  // namespace fsdp
