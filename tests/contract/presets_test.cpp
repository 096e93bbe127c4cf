#include "contract/families/family.h"
#include "contract/spec/overrides.h"
#include "tests/contract/applied_overrides.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;

TEST_CASE("presets have the published models' numbers of parameters") {
  const std::vector<std::pair<const char*, double>> published = {
      {"llama-7b", 6'738'415'616},     {"llama2-13b", 13'015'864'320},
      {"codellama-7b", 6'738'546'688}, {"tinyllama-1.1b", 1'100'048'384},
      {"llama3-8b", 8'030'261'248},    {"llama3.2-1b", 1'235'814'400},
      {"smollm2-135m", 134'515'008},   {"mistral-7b-v0.1", 7'241'732'096},
      {"mistral-7b", 7'248'023'552},   {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-7b", 7'615'616'512},   {"qwen3-0.6b", 596'049'920},
      {"qwen3-8b", 8'190'735'360},     {"t5-small", 60'506'624},
      {"t5-base", 222'903'552},        {"t5-large", 737'668'096},
      {"t5-3b", 2'851'598'336},        {"t5-v1.1-base", 247'577'856}};
  for (const auto& [name, parameters] : published) {
    INFO(name);
    const Preset* preset = find_preset(name);
    REQUIRE(preset != nullptr);
    CHECK(parameter_count(preset->config) == parameters);
  }
  std::set<std::string> names;
  for (const std::string& name : preset_names()) {
    INFO(name);
    CHECK(names.insert(name).second);
    CHECK_NOTHROW(check_model_config(find_preset(name)->config));
  }
}

ModelConfig config_of(std::initializer_list<const char*> layers) {
  std::vector<Overrides> read(layers.size());
  SpecDraft draft;
  auto next = read.begin();
  for (const char* text : layers) {
    const YamlOrigin origin{.name = "lab.yaml", .folder = "/"};
    next->add(parse_yaml(text, origin), origin);
    draft.apply(*next++);
  }
  return draft.evaluated().model.config;
}

TEST_CASE("a preset gives every key of the model, but those that stand beside it or come later") {
  const ModelConfig llama3 = find_preset("llama3-8b")->config;
  CHECK(config_of({"model.config: llama3-8b"}) == llama3);
  CHECK(config_of({"model.config: {hidden_size: 64, rope_theta: 5}", "model.config: llama3-8b"}) ==
        llama3);
  ModelConfig shorter = llama3;
  shorter.num_hidden_layers = 2;
  for (const char* text : {"model.config: {preset: llama3-8b, num_hidden_layers: 2}",
                           "model: {config: {num_hidden_layers: 2, preset: llama3-8b}}",
                           "{model.config.num_hidden_layers: 2, model.config.preset: llama3-8b}"}) {
    INFO(text);
    CHECK(config_of({text}) == shorter);
  }
  CHECK(config_of({"model.config: llama3-8b", "model.config.num_hidden_layers: 2"}) == shorter);
}

TEST_CASE("presets that are none, or stand beside a model's folder, are refused") {
  CHECK_THAT(refusal([] { config_of({"model.config: llama3-8c"}); }),
             Contains("lab.yaml:1:15: 'model.config': ") && Contains("llama3-8b"));
  CHECK_THAT(refusal([] { config_of({"model.config.preset: [llama3-8b]"}); }),
             Contains("'model.config.preset': "));
  CHECK_THAT(refusal([] { config_of({"model: {source: m, config: llama3-8b}"}); }),
             Contains("excludes 'model.source'"));
  CHECK_THAT(refusal([] {
               config_of({"model.source: m", "model.config: llama3-8b"});
             }),
             Contains("'model.config': excludes 'model.source', which is /m"));
  CHECK_THAT(refusal([] {
               config_of(
                   {"{model.config.vocab_size: 8, model.config: llama3-8b, "
                    "model.config.vocab_size: 9}"});
             }),
             Contains("duplicate key"));
}

}  // namespace
}  // namespace fsdp
