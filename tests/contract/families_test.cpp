#include <nlohmann/json.hpp>
#include <set>

#include "contract/families/family.h"
#include "tests/contract/applied_overrides.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;

ModelConfig default_of(const ModelFamily& family) {
  return {.architecture = std::string(family.architecture)};
}

double parameters_in(const ModelConfig& config) {
  double count = 0;
  for_each_module(config, [&](const ModuleSpec& module) {
    for (const ParameterSpec& parameter : module.parameters) {
      for (const NamedTensor& tensor : parameter.tensors) {
        double numel = 1;
        for (const int64_t size : tensor.shape) numel *= static_cast<double>(size);
        count += numel;
      }
    }
  });
  return count;
}

TEST_CASE("parameters are counted as the modules have them") {
  for (const ModelFamily& family : families()) {
    INFO(family.architecture);
    ModelConfig config = default_of(family);
    CHECK(parameter_count(config) == parameters_in(config));
    config.tie_word_embeddings = true;
    config.head_dim = 20;
    CHECK(parameter_count(config) == parameters_in(config));
  }
  // Embedding and head, then the blocks, then the last norm.
  CHECK(parameter_count(ModelConfig{.num_hidden_layers = 2,
                                    .hidden_size = 8,
                                    .intermediate_size = 12,
                                    .num_attention_heads = 2,
                                    .num_key_value_heads = 1,
                                    .head_dim = 6,
                                    .vocab_size = 16}) ==
        2 * 16 * 8 + 2 * (8 * 12 + 2 * 8 * 6 + 12 * 8 + 3 * 8 * 12 + 2 * 8) + 8);
}

TEST_CASE("no name is twice among the modules, parameters of a module, and tensors of a model") {
  for (const ModelFamily& family : families()) {
    INFO(family.architecture);
    std::set<std::string> modules, tensors;
    for_each_module(default_of(family), [&](const ModuleSpec& module) {
      CHECK(modules.insert(module.name).second);
      std::set<std::string> parameters;
      for (const ParameterSpec& parameter : module.parameters) {
        CHECK(parameters.insert(parameter.name).second);
        for (const NamedTensor& tensor : parameter.tensors) {
          CHECK(tensors.insert(tensor.name).second);
        }
      }
    });
  }
}

TEST_CASE("the config.json that a family writes is read as the same architecture") {
  for (const ModelFamily& family : families()) {
    INFO(family.architecture);
    ModelConfig config = default_of(family);
    config.head_dim = 20;
    config.tie_word_embeddings = true;
    if (takes_key(family, "num_key_value_heads")) config.num_key_value_heads = 2;
    if (takes_key(family, "rope_theta")) config.rope_theta = 50000.5;
    if (takes_key(family, "initializer_range")) config.initializer_range = 0.25;
    if (takes_key(family, "num_decoder_layers")) config.num_decoder_layers = 3;
    if (takes_key(family, "dropout_rate")) config.dropout_rate = 0.25;
    if (takes_key(family, "scale_decoder_outputs")) config.scale_decoder_outputs = false;
    if (takes_key(family, "padding_idx")) config.padding_idx = 3;
    const std::string text = family.write_config(config).dump();
    CHECK(read_model_config({"config.json", nlohmann::json::parse(text)}) == config);
  }
}

TEST_CASE("an architecture that is in no table is refused with those that are") {
  for (const std::string name : {"Elman", "''"}) {
    CHECK_THAT(refusal([&] { applied("model.config.architecture: " + name); }),
               Contains("'model.config.architecture': '") &&
                   Contains("' is not one of its values; allowed: ") &&
                   Contains("LlamaForCausalLM"));
  }
  CHECK_THAT(refusal([] {
               read_model_config({"m/config.json", nlohmann::json{{"architectures", {"Elman"}}}});
             }),
             Contains("m/config.json: 'architectures': is [\"Elman\"]; allowed: ") &&
                 Contains("[\"LlamaForCausalLM\"]"));
}

TEST_CASE("the largest model that the ranges allow is refused, and not built") {
  constexpr int64_t kMillion = 1'000'000;
  CHECK_THAT(refusal([] {
               check_model_config({.num_hidden_layers = 100'000,
                                   .hidden_size = kMillion,
                                   .intermediate_size = 10 * kMillion,
                                   .num_attention_heads = kMillion,
                                   .num_key_value_heads = kMillion,
                                   .head_dim = kMillion});
             }),
             Contains("asks for 4.00003") && Contains("e+23 parameters; allowed: at most 1000000"));
}

TEST_CASE("a width of heads need not follow from the hidden size, but is even") {
  CHECK_NOTHROW(check_model_config({.head_dim = 20}));
  CHECK_THAT(refusal([] { check_model_config({.head_dim = 21}); }),
             Contains("'head_dim': 21 is odd"));
  CHECK_THAT(refusal([] { check_model_config({.num_attention_heads = 96}); }),
             Contains("'num_attention_heads': 96 does not divide hidden_size 288 into heads of an "
                      "even width"));
  CHECK_THAT(
      refusal([] {
        check_model_config({.num_attention_heads = 5, .num_key_value_heads = 5, .head_dim = 20});
      }),
      Contains("5 does not divide hidden_size 288"));
}

}  // namespace
}  // namespace fsdp
