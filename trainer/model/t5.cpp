// The modules of T5. The first block of a stack makes the bias for all blocks of the stack.
#include "trainer/model/t5.h"

#include <cmath>

#include "contract/families/family.h"
#include "trainer/model/head.h"
#include "trainer/model/recomputation.h"
#include "trainer/model/splitmix64.h"
#include "trainer/model/t5_layers.h"

// Shape suffixes: B rows, T tokens of a row, N = B * T, D hidden_size, E packed heads, H heads.
namespace fsdp {
namespace {

// Activations beside kHidden, which belongs first to the encoder and then to the decoder.
constexpr const char* kDecoderInput = "decoder_input";
constexpr const char* kEncoderOutput = "encoder_output";
constexpr const char* kDistanceBias = "distance_bias";  // [H, T, T], of the current stack

// The dropouts of one module, each with its own random numbers.
class Dropouts {
 public:
  Dropouts(double probability, size_t module) : probability_(probability), module_(module) {}

  // `place` is the dropout's number in the module, below kPlacesMax.
  Dropout at(const Pass& pass, uint64_t place) const {
    return {probability_, splitmix64(pass.batch.seed, module_ * kPlacesMax + place)};
  }

 private:
  static constexpr uint64_t kPlacesMax = 16;

  double probability_;
  uint64_t module_;
};

class SharedEmbedding : public Module {
 public:
  SharedEmbedding(const ModuleSpec& spec, const ModelConfig& config)
      : Module(spec), weight_(parameter("weight")), dropouts_(config.dropout_rate, 0) {
    is_shared_ = config.tie_word_embeddings;
  }

  const ParameterPtr& weight() const { return weight_; }

  void forward(Pass& pass) override {
    pass.activations[kHidden] = embedded(pass, pass.batch.input_ids_BT, 0);
    pass.activations[kDecoderInput] = embedded(pass, pass.batch.decoder_input_ids_BT, 1);
  }

 private:
  Activation embedded(Pass& pass, const at::Tensor& token_ids_BT, uint64_t place) const {
    return dropout(pass, embedding(pass, token_ids_BT.flatten(), weight_),
                   dropouts_.at(pass, place));
  }

  ParameterPtr weight_;
  Dropouts dropouts_;
};

class T5Block : public Module {
 public:
  T5Block(const ModuleSpec& spec, const ModelConfig& config, size_t index, bool is_decoder)
      : Module(spec),
        config_(config),
        dropouts_(config.dropout_rate, index),
        is_decoder_(is_decoder),
        relative_bias_(find_parameter("relative_bias")),
        self_{parameter("attention_norm"), linear("query"), linear("key_value"),
              linear("attention_output")},
        mlp_norm_(parameter("mlp_norm")),
        wi_(linear("wi")),
        wo_(linear("wo")) {
    if (is_decoder) {
      cross_ = {parameter("cross_norm"), linear("cross_query"), linear("cross_key_value"),
                linear("cross_output")};
    }
  }

  void forward(Pass& pass) override {
    if (relative_bias_) write_distance_bias(pass);
    Activation x_ND = attend_to_itself(pass, pass.take(kHidden));
    if (is_decoder_) x_ND = attend_to_encoder(pass, x_ND);
    pass.activations[kHidden] = feed_forward(pass, x_ND);
  }

 private:
  struct Attention {
    ParameterPtr norm;
    Linear query;
    Linear key_value;
    Linear output;
  };

  void write_distance_bias(Pass& pass) {
    const at::Tensor& tokens_BT =
        is_decoder_ ? pass.batch.decoder_input_ids_BT : pass.batch.input_ids_BT;
    const int64_t length = tokens_BT.size(1);
    const at::Tensor kinds = kinds_of_pairs(kinds_of_distances(tokens_BT.options()), length);
    pass.activations[kDistanceBias] = relative_bias(pass, kinds, length, relative_bias_);
  }

  // kinds_ is kept between steps. The kinds of pairs are not, because a step's memory would then
  // depend on the step before.
  const at::Tensor& kinds_of_distances(const at::TensorOptions& options) {
    if (kinds_.defined() && kinds_.device() == options.device()) return kinds_;
    const int64_t distance_max = config_.relative_attention_max_distance;
    kinds_ = options.device().is_meta()
                 ? at::empty({2 * distance_max + 1}, options)
                 : distance_kinds(config_.relative_attention_num_buckets, distance_max,
                                  /*both_ways=*/!is_decoder_)
                       .to(options.device(), /*non_blocking=*/true);
    return kinds_;
  }

  Activation attend_to_itself(Pass& pass, const Activation& x_ND) {
    BiasedAttentionOptions options = attention_options(pass, 0);
    options.is_causal = is_decoder_;
    if (!is_decoder_) options.key_counts_B = pass.batch.input_counts_B;
    const auto attend = [this, options, bias_HTT = pass.activations.at(kDistanceBias)](
                            Pass& pass, const Activation& x_ND) {
      const Activation normed_ND = rms_norm(pass, x_ND, self_.norm, config_.rms_norm_eps);
      return biased_attention(pass, fsdp::linear(pass, normed_ND, self_.query),
                              fsdp::linear(pass, normed_ND, self_.key_value), &bias_HTT, options);
    };
    const Activation out_NE = recomputable(pass, CheckpointedPart::kAttention, x_ND, attend);
    return residual(pass, x_ND, out_NE, self_.output, 1);
  }

  Activation attend_to_encoder(Pass& pass, const Activation& x_ND) {
    BiasedAttentionOptions options = attention_options(pass, 2);
    options.key_counts_B = pass.batch.input_counts_B;
    const auto attend = [this, options, encoded = pass.activations.at(kEncoderOutput)](
                            Pass& pass, const Activation& x_ND) {
      const Activation normed_ND = rms_norm(pass, x_ND, cross_.norm, config_.rms_norm_eps);
      return biased_attention(pass, fsdp::linear(pass, normed_ND, cross_.query),
                              fsdp::linear(pass, encoded, cross_.key_value), nullptr, options);
    };
    const Activation out_NE = recomputable(pass, CheckpointedPart::kAttention, x_ND, attend);
    return residual(pass, x_ND, out_NE, cross_.output, 3);
  }

  Activation feed_forward(Pass& pass, const Activation& x_ND) {
    const auto widen = [this](Pass& pass, const Activation& x_ND) {
      return rms_norm_linear(pass, x_ND, mlp_norm_, config_.rms_norm_eps, wi_);
    };
    const Activation inner = recomputable(pass, CheckpointedPart::kMlp, x_ND, widen);
    Pass last = pass.without_reader();
    Pass& before = wo_.is_trained() ? pass : last;  // only a trained weight's gradient reads h
    const Activation h_NF =
        dropout(before, feed_forward_activation(before, inner, config_.feed_forward_proj),
                dropouts_.at(pass, 4));
    return residual(last, x_ND, h_NF, wo_, 5);
  }

  BiasedAttentionOptions attention_options(const Pass& pass, uint64_t place) const {
    return {.rows = pass.batch.input_ids_BT.size(0),
            .heads = config_.num_attention_heads,
            .dropout = dropouts_.at(pass, place)};
  }

  // Returns x + dropout(linear(y)).
  Activation residual(Pass& pass, const Activation& x_ND, const Activation& y, const Linear& linear,
                      uint64_t place) const {
    if (config_.dropout_rate == 0 || !pass.tape.wants_gradients()) {
      return residual_linear(pass, x_ND, y, linear);
    }
    return add(pass, x_ND, dropout(pass, fsdp::linear(pass, y, linear), dropouts_.at(pass, place)));
  }

  ModelConfig config_;
  Dropouts dropouts_;
  bool is_decoder_;
  ParameterPtr relative_bias_;  // null except in a stack's first block
  Attention self_;
  Attention cross_{};
  ParameterPtr mlp_norm_;
  Linear wi_;
  Linear wo_;
  at::Tensor kinds_;  // of distances
};

class EncoderEnd : public Module {
 public:
  EncoderEnd(const ModuleSpec& spec, const ModelConfig& config, size_t index)
      : Module(spec),
        epsilon_(config.rms_norm_eps),
        dropouts_(config.dropout_rate, index),
        weight_(parameter("weight")) {}

  void forward(Pass& pass) override {
    pass.activations[kEncoderOutput] =
        dropout(pass, rms_norm(pass, pass.take(kHidden), weight_, epsilon_), dropouts_.at(pass, 0));
    pass.activations[kHidden] = pass.take(kDecoderInput);
  }

 private:
  double epsilon_;
  Dropouts dropouts_;
  ParameterPtr weight_;
};

class T5Head : public Module {
 public:
  // `tied` is the embedding's weight, or null if the head has its own.
  T5Head(const ModuleSpec& spec, const ModelConfig& config, size_t index, ParameterPtr tied)
      : Module(spec),
        epsilon_(config.rms_norm_eps),
        scale_(config.scale_decoder_outputs.value_or(config.tie_word_embeddings)
                   ? 1 / std::sqrt(static_cast<double>(config.hidden_size))
                   : 1),
        dropouts_(config.dropout_rate, index),
        norm_(parameter("norm")),
        weight_(tied ? std::move(tied) : parameter("weight")) {}

  void forward(Pass& pass) override {
    const Activation h_ND = scaled(
        pass,
        dropout(pass, rms_norm(pass, pass.take(kHidden), norm_, epsilon_), dropouts_.at(pass, 0)));
    pass.activations[kLoss] = {.value = loss_of(pass, h_ND, weight_)};
  }

 private:
  Activation scaled(Pass& pass, const Activation& x_ND) const {
    if (scale_ == 1) return x_ND;
    return pass.tape.record(
        x_ND.value * scale_,
        [x = x_ND.gradient, scale = scale_](const at::Tensor& dy_ND) { x->add(dy_ND * scale); },
        x_ND.needs_gradient());
  }

  double epsilon_;
  double scale_;  // of the head's input
  Dropouts dropouts_;
  ParameterPtr norm_;
  ParameterPtr weight_;
};

}  // namespace

Model make_t5(const ModelConfig& config, std::span<const ModuleSpec> modules) {
  Model model;
  ParameterPtr tied;
  bool is_decoder = false;
  for (const ModuleSpec& spec : modules) {
    const size_t index = model.modules.size();
    const auto add = [&](std::unique_ptr<Module> module) {
      model.modules.push_back(std::move(module));
    };
    if (index == 0) {
      auto embedding = std::make_unique<SharedEmbedding>(spec, config);
      if (config.tie_word_embeddings) tied = embedding->weight();
      add(std::move(embedding));
    } else if (spec.is_block) {
      add(std::make_unique<T5Block>(spec, config, index, is_decoder));
    } else if (!is_decoder) {
      add(std::make_unique<EncoderEnd>(spec, config, index));
      is_decoder = true;
    } else {
      add(std::make_unique<T5Head>(spec, config, index, tied));
    }
  }
  return model;
}

}  // namespace fsdp
