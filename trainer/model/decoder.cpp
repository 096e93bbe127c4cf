// The modules of decoder-only models. Parameters and their order come from the family.
#include "trainer/model/decoder.h"

#include "contract/families/family.h"
#include "trainer/model/head.h"
#include "trainer/model/layers.h"
#include "trainer/model/recomputation.h"

// Shape suffixes: B sequences, T tokens of a sequence, N = B * T, D hidden_size, F
// intermediate_size, E packed heads.
namespace fsdp {
namespace {

class EmbeddingModule : public Module {
 public:
  EmbeddingModule(const ModuleSpec& spec, const ModelConfig& config)
      : Module(spec), weight_(parameter("weight")), padding_idx_(config.padding_idx) {
    is_shared_ = config.tie_word_embeddings;
  }

  const ParameterPtr& weight() const { return weight_; }

  void forward(Pass& pass) override {
    pass.activations[kHidden] =
        embedding(pass, pass.batch.input_ids_BT.flatten(), weight_, padding_idx_);
  }

 private:
  ParameterPtr weight_;
  std::optional<int64_t> padding_idx_;
};

class BlockModule : public Module {
 public:
  BlockModule(const ModuleSpec& spec, const ModelConfig& config,
              std::shared_ptr<RotaryEmbedding> rotary)
      : Module(spec),
        epsilon_(config.rms_norm_eps),
        rotary_(std::move(rotary)),
        heads_{.query = config.num_attention_heads,
               .key_value = config.num_key_value_heads,
               .width = config.head_width(),
               .window = config.sliding_window.value_or(0)},
        attention_norm_(parameter("attention_norm")),
        query_key_value_(linear("query_key_value")),
        query_norm_(find_parameter("query_norm")),
        key_norm_(find_parameter("key_norm")),
        attention_output_(linear("attention_output")),
        mlp_norm_(parameter("mlp_norm")),
        gate_up_(linear("gate_up")),
        down_(linear("down")) {}

  void forward(Pass& pass) override {
    const Activation x_ND = pass.take(kHidden);
    const Activation h_ND = residual_linear(pass, x_ND, attend(pass, x_ND), attention_output_);
    const Activation gate_up_N2F = gate_up(pass, h_ND);
    Pass last = pass.without_reader();
    pass.activations[kHidden] = residual_swiglu_linear(last, h_ND, gate_up_N2F, down_);
  }

 private:
  Activation attend(Pass& pass, const Activation& x_ND) {
    return recomputable(
        pass, CheckpointedPart::kAttention, x_ND, [this](Pass& pass, const Activation& x_ND) {
          Activation qkv_NE =
              rms_norm_linear(pass, x_ND, attention_norm_, epsilon_, query_key_value_);
          if (query_norm_) {
            qkv_NE = head_norms(pass, std::move(qkv_NE), heads_, query_norm_, key_norm_, epsilon_);
          }
          return causal_attention(pass, std::move(qkv_NE), pass.batch.input_ids_BT.size(1), heads_,
                                  *rotary_);
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
  Linear query_key_value_;
  ParameterPtr query_norm_;  // null: heads are not normed
  ParameterPtr key_norm_;
  Linear attention_output_;
  ParameterPtr mlp_norm_;
  Linear gate_up_;
  Linear down_;
};

class HeadModule : public Module {
 public:
  // `tied` is the embedding's weight, or null if the head has its own.
  HeadModule(const ModuleSpec& spec, const ModelConfig& config, ParameterPtr tied)
      : Module(spec),
        epsilon_(config.rms_norm_eps),
        norm_(parameter("norm")),
        weight_(tied ? std::move(tied) : parameter("weight")) {}

  void forward(Pass& pass) override {
    const Activation h_ND = rms_norm(pass, pass.take(kHidden), norm_, epsilon_);
    pass.activations[kLoss] = {.value = loss_of(pass, h_ND, weight_)};
  }

 private:
  double epsilon_;
  ParameterPtr norm_;
  ParameterPtr weight_;
};

}  // namespace

Model make_decoder(const ModelConfig& config, std::span<const ModuleSpec> modules,
                   at::ScalarType buffer_type) {
  Model model;
  ParameterPtr tied;
  const auto rotary = std::make_shared<RotaryEmbedding>(config.head_width(), config.rope_theta,
                                                        buffer_type, config.rope_scaling);
  for (const ModuleSpec& spec : modules) {
    if (model.modules.empty()) {
      auto embedding = std::make_unique<EmbeddingModule>(spec, config);
      if (config.tie_word_embeddings) tied = embedding->weight();
      model.modules.push_back(std::move(embedding));
    } else if (spec.is_block) {
      model.modules.push_back(std::make_unique<BlockModule>(spec, config, rotary));
    } else {
      model.modules.push_back(std::make_unique<HeadModule>(spec, config, tied));
    }
  }
  return model;
}

}  // namespace fsdp
