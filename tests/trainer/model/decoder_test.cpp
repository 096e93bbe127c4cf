#include <catch2/catch.hpp>
#include <map>

#include "contract/families/family.h"
#include "tests/trainer/model/gradient_check.h"
#include "tests/trainer/model/model_step.h"
#include "trainer/model/families.h"

namespace fsdp::decoder_test {

ModelConfig small_config(bool tied, std::optional<int64_t> head_dim = std::nullopt) {
  return {.architecture = "LlamaForCausalLM",
          .num_hidden_layers = 2,
          .hidden_size = 24,
          .intermediate_size = 40,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = head_dim,
          .vocab_size = 50,
          .tie_word_embeddings = tied};
}

// Configurations that together have all features of the families.
std::vector<ModelConfig> small_configs() {
  ModelConfig with_biases = small_config(false);
  with_biases.attention_bias = with_biases.mlp_bias = true;
  ModelConfig mistral = small_config(false, 10);
  mistral.architecture = "MistralForCausalLM";
  mistral.sliding_window = 3;
  ModelConfig qwen2 = small_config(true);
  qwen2.architecture = "Qwen2ForCausalLM";
  ModelConfig qwen3 = small_config(false, 10);
  qwen3.architecture = "Qwen3ForCausalLM";
  return {small_config(false),
          small_config(true),
          small_config(false, 10),
          with_biases,
          mistral,
          qwen2,
          qwen3};
}

Batch some_batch() {
  Batch batch;
  batch.input_ids_BT = at::randint(50, {2, 7}, at::kLong);
  batch.labels_BT = at::randint(50, {2, 7}, at::kLong);
  batch.labels_BT[1].narrow(0, 0, 3).fill_(-100);
  batch.loss_scale = 1.0 / 11;
  return batch;
}

// A decoder in plain operations. `weights` are named as in checkpoints.
class TextbookDecoder {
 public:
  TextbookDecoder(const ModelConfig& config, std::map<std::string, at::Tensor> weights)
      : config_(config), weights_(std::move(weights)) {}

  at::Tensor loss(const Batch& batch) const {
    at::Tensor x = at::embedding(weights_.at("model.embed_tokens.weight"), batch.input_ids_BT);
    for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      x = x + attention(norm(x, layer + "input_layernorm"), layer + "self_attn.");
      const at::Tensor h = norm(x, layer + "post_attention_layernorm");
      const at::Tensor gate = at::silu(linear(h, layer + "mlp.gate_proj"));
      x = x + linear(gate * linear(h, layer + "mlp.up_proj"), layer + "mlp.down_proj");
    }
    const std::string head = config_.tie_word_embeddings ? "model.embed_tokens" : "lm_head";
    const at::Tensor logits = linear(norm(x, "model.norm"), head);
    return at::cross_entropy_loss(logits.flatten(0, 1), batch.labels_BT.flatten(), /*weight=*/{},
                                  at::Reduction::Sum, -100) *
           batch.loss_scale;
  }

 private:
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    const at::Tensor product = x.matmul(weights_.at(name + ".weight").t());
    const auto bias = weights_.find(name + ".bias");
    return bias == weights_.end() ? product : product + bias->second;
  }
  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    return textbook_rms_norm(x, weights_.at(name + ".weight"), config_.rms_norm_eps);
  }
  at::Tensor rotated(const at::Tensor& x) const {
    return textbook_rotary(x, at::arange(x.size(2), x.options()), config_.rope_theta);
  }
  at::Tensor attention(const at::Tensor& x, const std::string& name) const {
    const auto heads = [&](const std::string& projection, int64_t count) {
      return linear(x, name + projection).view({x.size(0), x.size(1), count, -1}).transpose(1, 2);
    };
    const int64_t group = config_.num_attention_heads / config_.num_key_value_heads;
    const auto normed = [&](const at::Tensor& x, const std::string& norm_name) {
      return weights_.contains(norm_name + ".weight") ? norm(x, norm_name) : x;
    };
    const at::Tensor q =
        rotated(normed(heads("q_proj", config_.num_attention_heads), name + "q_norm"));
    const at::Tensor k =
        rotated(normed(heads("k_proj", config_.num_key_value_heads), name + "k_norm"));
    const at::Tensor v = heads("v_proj", config_.num_key_value_heads);
    const int64_t length = x.size(1);
    const at::Tensor seen = at::ones({length, length}, at::kBool)
                                .tril()
                                .triu(1 - config_.sliding_window.value_or(length));
    const at::Tensor y = at::scaled_dot_product_attention(q, k.repeat_interleave(group, 1),
                                                          v.repeat_interleave(group, 1), seen);
    return linear(y.transpose(1, 2).flatten(2), name + "o_proj");
  }

  ModelConfig config_;
  std::map<std::string, at::Tensor> weights_;
};

TEST_CASE("a step of the modules equals autograd over the whole model") {
  const auto type = GENERATE(at::kDouble, at::kFloat);
  const double tolerance = type == at::kDouble ? 1e-10 : 5e-5;
  const at::TensorOptions options(type);
  const ModelConfig config = GENERATE(from_range(small_configs()));
  INFO(config.architecture);
  Model model = make_model(config);
  attach_parameters(model, options);
  const Batch batch = some_batch();

  auto weights = values_of(model);
  for (auto& [name, weight] : weights) weight = weight.clone().requires_grad_();
  const at::Tensor expected = TextbookDecoder(config, weights).loss(batch);
  expected.backward();

  const at::Tensor loss = forward_and_backward(model, batch);
  CHECK(loss.dim() == 0);
  CHECK(relative_error(loss, expected) < 1e-6);
  const auto gradients = gradients_of(model);
  CHECK(gradients.size() == weights.size());
  for (const auto& [name, gradient] : gradients) {
    INFO(name);
    CHECK(relative_error(gradient, weights.at(name).grad()) < tolerance);
  }

  // A second micro-batch adds to the gradients.
  forward_and_backward(model, batch);
  for (const auto& [name, gradient] : gradients) {
    INFO(name);
    CHECK(relative_error(gradient, weights.at(name).grad() * 2) < tolerance);
  }
}

// Returns `length` tokens of a batch, beginning with `first`, as a row of their own.
Batch row_of(const Batch& batch, int64_t first, int64_t length) {
  const auto row = [&](const at::Tensor& tokens_BT) {
    return tokens_BT.flatten().narrow(0, first, length).unsqueeze(0).contiguous();
  };
  return {.input_ids_BT = row(batch.input_ids_BT),
          .labels_BT = row(batch.labels_BT),
          .loss_scale = batch.loss_scale};
}

TEST_CASE("packed documents give the losses and gradients of the same documents apart") {
  const auto type = GENERATE(at::kDouble, at::kFloat);
  const double tolerance = type == at::kDouble ? 1e-10 : 5e-5;
  const std::vector<int64_t> lengths = {3, 1, 3, 7, 6, 1};
  Batch packed;
  packed.input_ids_BT = at::randint(50, {3, 7}, at::kLong);
  packed.labels_BT = at::randint(50, {3, 7}, at::kLong);
  packed.labels_BT[0][2] = kNoLabel;
  packed.loss_scale = 1.0 / 20;
  packed.documents = make_documents(lengths, 7, at::kCPU);
  Model model = make_model(GENERATE(from_range(small_configs())));
  attach_parameters(model, at::TensorOptions(type));

  at::Tensor loss = at::zeros({}, at::kDouble);
  at::Tensor figures = at::zeros({2}, at::kDouble);
  int64_t first = 0;
  for (const int64_t length : lengths) {  // gradients are added up, too
    const Batch apart = row_of(packed, first, length);
    loss += forward_and_backward(model, apart);
    figures += forward_and_backward(model, apart, Tape::Mode::kNoGradients);
    first += length;
  }
  auto expected = gradients_of(model);
  for (auto& [name, gradient] : expected) gradient = gradient.clone();
  forget_gradients(model);

  CHECK(relative_error(forward_and_backward(model, packed), loss) < 1e-6);
  for (const auto& [name, gradient] : gradients_of(model)) {
    INFO(name);
    CHECK(relative_error(gradient, expected.at(name)) < tolerance);
  }
  CHECK(relative_error(forward_and_backward(model, packed, Tape::Mode::kNoGradients), figures) <
        1e-6);
}

TEST_CASE("parameters carry Hugging Face's names, stacked where one product uses them") {
  const Model model = make_model(small_config(false));
  REQUIRE(model.modules.size() == 4);
  CHECK_FALSE(model.modules[0]->is_block());
  CHECK(model.modules[1]->is_block());
  CHECK_FALSE(model.modules[3]->is_block());
  CHECK_FALSE(model.modules[0]->is_shared());
  const ParameterPtr& qkv = model.modules[2]->parameters()[1];
  REQUIRE(qkv->tensors().size() == 3);
  CHECK(qkv->tensors()[1].name == "model.layers.1.self_attn.k_proj.weight");
  CHECK(qkv->shape() == std::vector<int64_t>{24 + 12 + 12, 24});
  CHECK(qkv->initialization() == Initialization::kNormal);
  CHECK(model.modules[2]->parameters()[0]->initialization() == Initialization::kOnes);
  const int64_t block = 2 * 24 + 48 * 24 + 24 * 24 + 3 * 24 * 40;
  CHECK(model.parameter_count() == 2 * 50 * 24 + 2 * block + 24);
}

TEST_CASE("a model has the modules and tensors of its family, in every family") {
  for (const ModelFamily& family : families()) {
    INFO(family.architecture);
    const ModelConfig config{.architecture = std::string(family.architecture)};
    const Model model = make_model(config);
    size_t i = 0;
    for_each_module(config, [&](const ModuleSpec& spec) {
      const Module& module = *model.modules.at(i++);
      CHECK(module.name() == spec.name);
      REQUIRE(module.parameters().size() == spec.parameters.size());
    });
    CHECK(i == model.modules.size());
    CHECK(static_cast<double>(model.parameter_count()) == parameter_count(config));
  }
}

TEST_CASE("weights are drawn with the configuration's standard deviation") {
  ModelConfig config = small_config(false);
  config.initializer_range = 0.5;
  const Model model = make_model(config);
  for (const auto& module : model.modules) {
    for (const ParameterPtr& parameter : module->parameters()) {
      if (parameter->role() == ParameterRole::kNorm) continue;
      CHECK(parameter->standard_deviation() == 0.5);
    }
  }
}

TEST_CASE("tied embeddings are one shared parameter of the first module") {
  const Model model = make_model(small_config(true));
  CHECK(model.modules.front()->is_shared());
  REQUIRE(model.modules.back()->parameters().size() == 1);
  CHECK(model.modules.back()->parameters()[0]->tensors()[0].name == "model.norm.weight");
}

TEST_CASE("the model runs without gradient buffers when gradients are off") {
  const ModelConfig config = small_config(false);
  Model model = make_model(config);
  attach_parameters(model, at::kFloat);
  const Batch batch = some_batch();
  const at::Tensor expected = TextbookDecoder(config, values_of(model)).loss(batch);
  for (const auto& module : model.modules) {
    for (const ParameterPtr& parameter : module->parameters()) parameter->gradient.tensor.reset();
  }
  const at::Tensor figures = forward_and_backward(model, batch, Tape::Mode::kNoGradients);
  REQUIRE(figures.sizes() == at::IntArrayRef{2});
  CHECK(relative_error(figures[0], expected) < 1e-5);
}

}  // namespace fsdp::decoder_test
