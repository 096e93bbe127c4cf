#include "contract/families/adapters.h"

#include "contract/families/family.h"
#include "formats/weights/weights.h"
#include "tests/contract/applied_overrides.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;
using Tensors = std::map<std::string, std::vector<int64_t>>;  // shapes by name

const ModelConfig kSmall = {.num_hidden_layers = 1,
                            .hidden_size = 8,
                            .intermediate_size = 12,
                            .num_attention_heads = 2,
                            .num_key_value_heads = 1,
                            .vocab_size = 16};

LoraSpec lora_of(int64_t rank, TextList targets, double alpha = 16) {
  LoraSpec lora;
  lora.rank = rank;
  lora.targets = std::move(targets);
  lora.alpha = alpha;
  return lora;
}

Tensors tensors_of_adapters(const LoraSpec& lora) {
  Tensors tensors;
  for_each_module(kSmall, Method::kLora, lora, [&](const ModuleSpec& module) {
    for (const ParameterSpec& parameter : module.parameters) {
      CHECK(parameter.is_trained == (parameter.role == ParameterRole::kAdapter));
      if (!parameter.is_trained) continue;
      for (const NamedTensor& tensor : parameter.tensors) tensors[tensor.name] = tensor.shape;
    }
  });
  return tensors;
}

TEST_CASE("adapters have PEFT's names, beside the weights that are meant") {
  const std::string block = "base_model.model.model.layers.0.";
  CHECK(tensors_of_adapters(lora_of(2, {"v_proj", "down_proj"})) ==
        Tensors{{block + "self_attn.v_proj.lora_A.weight", {2, 8}},
                {block + "self_attn.v_proj.lora_B.weight", {4, 2}},
                {block + "mlp.down_proj.lora_A.weight", {2, 12}},
                {block + "mlp.down_proj.lora_B.weight", {8, 2}}});
  CHECK(adapted_names(kSmall, lora_of(2, {"mlp", "q_proj"})) ==
        std::vector<std::string>{"down_proj", "gate_proj", "q_proj", "up_proj"});
  CHECK(adapted_names(kSmall, {}).size() == 7);
  CHECK(trained_parameter_count(kSmall, Method::kLora, lora_of(2, {"v_proj"})) == 2 * 8 + 4 * 2);
}

TEST_CASE("adapters that a model cannot have are refused with what it has") {
  const auto message = [](const LoraSpec& lora) {
    return refusal([&] { check_adapters(kSmall, lora); });
  };
  CHECK_NOTHROW(check_adapters(kSmall, lora_of(4, {"all-linear"})));
  CHECK_THAT(message(lora_of(2, {"wq"})),
             Contains("lora.targets") &&
                 Contains("'wq' is no weight of LlamaForCausalLM's blocks") &&
                 Contains("allowed: all-linear, attention, mlp, down_proj, gate_proj"));
  CHECK_THAT(message(lora_of(2, {})), Contains("is empty, so nothing would be trained"));
  CHECK_THAT(message(lora_of(5, {"all-linear"})),
             Contains("lora.rank") && Contains("allowed: at most 4"));
}

TEST_CASE("keys of adapters without method lora are refused") {
  const auto message = [](const std::string& text) {
    return refusal([&] { resolved(applied(text)); });
  };
  CHECK_THAT(message("lora: {rank: 4}"), Contains("method is full"));
  CHECK_THAT(message("{method: lora, lora: {targets: [c_attn]}}"),
             Contains("'c_attn' is no weight"));
}

TEST_CASE("a folder of other adapters than the run's is refused") {
  const LoraSpec lora = lora_of(2, {"v_proj"}, 4);
  const TemporaryFolder folder;
  const auto write = [&](const std::string& keys, const Tensors& tensors,
                         const std::string& targets = R"(["v_proj"])") {
    folder.write("adapter_config.json",
                 R"({"peft_type": "LORA", "bias": "none", "target_modules": )" + targets + ", " +
                     keys + "}");
    folder.write("adapter_model.safetensors", counting_safetensors(tensors));
  };
  const auto message = [&] { return refusal([&] { check_adapter(folder.path(), kSmall, lora); }); };
  const std::string keys = R"("r": 2, "lora_alpha": 4, "use_rslora": false)";
  Tensors tensors = tensors_of_adapters(lora);
  write(keys, tensors);
  CHECK_NOTHROW(check_adapter(folder.path(), kSmall, lora));
  write(R"("r": 2, "lora_alpha": 16, "use_rslora": false)", tensors);
  CHECK_THAT(message(), Contains("has lora_alpha 16, but lora.alpha is 4"));
  write(R"("r": 2, "lora_alpha": 4, "use_rslora": true)", tensors);
  CHECK_THAT(message(), Contains("has use_rslora true, but lora.use_rslora is false"));
  write(R"("r": 2)", tensors);
  CHECK_THAT(message(), Contains("has lora_alpha 8, but lora.alpha is 4"));  // PEFT's default
  for (const char* other : {R"(["q_proj","v_proj"])", R"(["k_proj"])", "[]", R"("all-linear")"}) {
    write(keys, tensors, other);
    CHECK_THAT(message(), Contains(std::string("has target_modules ") + other) &&
                              Contains("take the folder as PEFT saved it"));
  }
  for (const char* same : {R"(["self_attn.v_proj"])", R"(["v_proj", "query"])", R"(".*v_proj")"}) {
    write(keys, tensors, same);
    CHECK_NOTHROW(check_adapter(folder.path(), kSmall, lora));
  }
  write(keys, tensors, "7");
  CHECK_THAT(message(), Contains("allowed: a list of names such as [\"q_proj\"]"));
  write(keys, tensors_of_adapters(lora_of(2, {"v_proj", "o_proj"})));
  CHECK_THAT(message(), Contains("o_proj.lora_A.weight' is no adapter of lora.targets"));
  tensors.begin()->second = {3, 8};
  write(keys, tensors);
  CHECK_THAT(message(), Contains("has shape [3, 8], but lora asks for [2, 8]"));
  tensors.erase(tensors.begin());
  write(keys, tensors);
  CHECK_THAT(message(), Contains("lora_A.weight' is missing"));
}

TEST_CASE("of a folder with a base model and adapters, each is read as PEFT reads it") {
  const LoraSpec lora = lora_of(2, {"v_proj"}, 8);
  const TemporaryFolder folder;
  folder.write("adapter_config.json", R"({"r": 2, "target_modules": ["v_proj"]})");
  folder.write("model.safetensors", counting_safetensors({{"base", {2}}}));
  CHECK_THAT(refusal([&] { check_adapter(folder.path(), kSmall, lora); }),
             Contains("holds neither adapter_model.safetensors nor adapter_model.bin"));
  folder.write("adapter_model.safetensors", counting_safetensors(tensors_of_adapters(lora)));
  CHECK_NOTHROW(check_adapter(folder.path(), kSmall, lora));
  CHECK(weight_files(folder.path(), WeightsOf::kAdapter) ==
        std::vector{folder.path() / "adapter_model.safetensors"});
  CHECK(read_weights(folder.path()).contains("base"));
}

TEST_CASE("adapters that compute otherwise than their tensors tell are refused") {
  const LoraSpec lora = lora_of(2, {"v_proj"}, 4);
  const TemporaryFolder folder;
  folder.write("adapter_model.safetensors", counting_safetensors(tensors_of_adapters(lora)));
  const auto check = [&](const std::string& key) {
    folder.write("adapter_config.json",
                 R"({"target_modules": ["v_proj"], "r": 2, "lora_alpha": 4, )" + key + "}");
    check_adapter(folder.path(), kSmall, lora);
  };
  for (const char* key :
       {R"("alpha_pattern": {"v_proj": 8})", R"("use_dora": true)", R"("use_qalora": true)",
        R"("kasa_config": {"beta": 1})", R"("alora_invocation_tokens": [1])",
        R"("init_lora_weights": "pissa_niter_4")", R"("init_lora_weights": "loftq")",
        R"("layer_replication": [[0, 1]])", R"("rank_pattern": {"v_proj": 3})", R"("bias": "all")",
        R"("modules_to_save": ["lm_head"])", R"("a_key_of_tomorrow": 1)"}) {
    CHECK_THAT(refusal([&] { check(key); }), Contains("only plain LoRA can be read"));
  }
  for (const char* plain :
       {R"("alpha_pattern": {}, "use_dora": false, "kasa_config": null)",
        R"("peft_type": "LORA", "bias": "none", "task_type": "CAUSAL_LM", "layers_pattern": [])",
        R"("eva_config": {"rho": 2.0}, "megatron_core": "megatron.core", "fan_in_fan_out": false)",
        R"("init_lora_weights": "gaussian")", R"("init_lora_weights": false)"}) {
    CHECK_NOTHROW(check(plain));
  }
}

}  // namespace
}  // namespace fsdp
