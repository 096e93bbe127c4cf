#include "trainer/model/llama.h"

#include "trainer/model/head.h"
#include "trainer/model/layers.h"
#include "trainer/model/recomputation.h"

// Shape suffixes: B sequences, T tokens of a sequence, N = B * T, D hidden_size, F
// intermediate_size, E packed heads.
namespace fsdp {
namespace {

ParameterPtr make_weight(std::vector<NamedTensor> tensors) {
  return c10::make_intrusive<Parameter>(std::move(tensors), Initialization::kNormal);
}

ParameterPtr make_norm_weight(const std::string& name, int64_t width) {
  return c10::make_intrusive<Parameter>(std::vector<NamedTensor>{{name, {width}}},
                                        Initialization::kOnes, ParameterRole::kNorm);
}

class EmbeddingModule : public Module {
 public:
  explicit EmbeddingModule(const ModelConfig& config)
      : Module("model.embed_tokens"),
        weight_(
            make_weight({{"model.embed_tokens.weight", {config.vocab_size, config.hidden_size}}})) {
    parameters_ = {weight_};
    is_shared_ = config.tie_word_embeddings;
  }

  const ParameterPtr& weight() const { return weight_; }

  void forward(Pass& pass) override {
    pass.activations[kHidden] = embedding(pass, pass.batch.input_ids_BT.flatten(), weight_);
  }

 private:
  ParameterPtr weight_;
};

class BlockModule : public Module {
 public:
  BlockModule(const ModelConfig& config, int64_t layer, std::shared_ptr<RotaryEmbedding> rotary)
      : Module("model.layers." + std::to_string(layer)),
        epsilon_(config.rms_norm_eps),
        rotary_(std::move(rotary)) {
    const int64_t hidden = config.hidden_size;
    const int64_t inner = config.intermediate_size;
    heads_ = {.query = config.num_attention_heads,
              .key_value = config.num_key_value_heads,
              .width = hidden / config.num_attention_heads};
    const int64_t key_value = heads_.key_value * heads_.width;
    const std::string attention = name_ + ".self_attn.";
    const std::string mlp = name_ + ".mlp.";
    attention_norm_ = make_norm_weight(name_ + ".input_layernorm.weight", hidden);
    query_key_value_ = make_weight({{attention + "q_proj.weight", {hidden, hidden}},
                                    {attention + "k_proj.weight", {key_value, hidden}},
                                    {attention + "v_proj.weight", {key_value, hidden}}});
    attention_output_ = make_weight({{attention + "o_proj.weight", {hidden, hidden}}});
    mlp_norm_ = make_norm_weight(name_ + ".post_attention_layernorm.weight", hidden);
    gate_up_ = make_weight(
        {{mlp + "gate_proj.weight", {inner, hidden}}, {mlp + "up_proj.weight", {inner, hidden}}});
    down_ = make_weight({{mlp + "down_proj.weight", {hidden, inner}}});
    parameters_ = {attention_norm_, query_key_value_, attention_output_,
                   mlp_norm_,       gate_up_,         down_};
  }

  bool is_block() const override { return true; }

  void forward(Pass& pass) override {
    const Activation x_ND = pass.take(kHidden);
    const Activation h_ND = residual_linear(pass, x_ND, attend(pass, x_ND), attention_output_);
    pass.activations[kHidden] = residual_swiglu_linear(pass, h_ND, gate_up(pass, h_ND), down_);
  }

 private:
  Activation attend(Pass& pass, const Activation& x_ND) {
    return recomputable(
        pass, CheckpointedPart::kAttention, x_ND, [this](Pass& pass, const Activation& x_ND) {
          return causal_attention(
              pass, rms_norm_linear(pass, x_ND, attention_norm_, epsilon_, query_key_value_),
              pass.batch.input_ids_BT.size(1), heads_, *rotary_);
        });
  }

  Activation gate_up(Pass& pass, const Activation& h_ND) {
    return recomputable(pass, CheckpointedPart::kMlp, h_ND,
                        [this](Pass& pass, const Activation& h_ND) {
                          return rms_norm_linear(pass, h_ND, mlp_norm_, epsilon_, gate_up_);
                        });
  }

  double epsilon_;
  std::shared_ptr<RotaryEmbedding> rotary_;
  AttentionHeads heads_;
  ParameterPtr attention_norm_;
  ParameterPtr query_key_value_;
  ParameterPtr attention_output_;
  ParameterPtr mlp_norm_;
  ParameterPtr gate_up_;
  ParameterPtr down_;
};

class HeadModule : public Module {
 public:
  // `tied`: the embedding's weight, or null when the head has its own.
  HeadModule(const ModelConfig& config, ParameterPtr tied)
      : Module("lm_head"),
        epsilon_(config.rms_norm_eps),
        norm_(make_norm_weight("model.norm.weight", config.hidden_size)),
        weight_(std::move(tied)) {
    parameters_ = {norm_};
    if (!weight_) {
      weight_ = make_weight({{"lm_head.weight", {config.vocab_size, config.hidden_size}}});
      parameters_.push_back(weight_);
    }
  }

  void forward(Pass& pass) override {
    const Activation h_ND = rms_norm(pass, pass.take(kHidden), norm_, epsilon_);
    const at::Tensor labels_N = pass.batch.labels_BT.flatten();
    const CrossEntropyOptions options{.loss_scale = pass.batch.loss_scale,
                                      .gradient_scale = pass.batch.gradient_scale};
    const at::Tensor loss =
        pass.tape.wants_gradients()
            ? linear_cross_entropy(pass, h_ND, labels_N, weight_, options)
            : evaluate_cross_entropy(pass, h_ND.value, labels_N, weight_, options);
    pass.activations[kLoss] = {.value = loss};
  }

 private:
  double epsilon_;
  ParameterPtr norm_;
  ParameterPtr weight_;
};

}  // namespace

Model make_llama(const ModelConfig& config, at::ScalarType buffer_type) {
  TORCH_CHECK(config.hidden_size % (2 * config.num_attention_heads) == 0,
              "num_attention_heads must divide hidden_size into an even head width");
  TORCH_CHECK(config.num_attention_heads % config.num_key_value_heads == 0,
              "num_key_value_heads must divide num_attention_heads");
  Model model;
  auto embedding = std::make_unique<EmbeddingModule>(config);
  const ParameterPtr tied = config.tie_word_embeddings ? embedding->weight() : ParameterPtr();
  model.modules.push_back(std::move(embedding));
  const auto rotary = std::make_shared<RotaryEmbedding>(
      config.hidden_size / config.num_attention_heads, config.rope_theta, buffer_type);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    model.modules.push_back(std::make_unique<BlockModule>(config, layer, rotary));
  }
  model.modules.push_back(std::make_unique<HeadModule>(config, tied));
  return model;
}

}  // namespace fsdp
