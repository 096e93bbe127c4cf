#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "contract/families/family.h"
#include "tests/trainer/model/gradient_check.h"
#include "tests/trainer/model/model_step.h"
#include "trainer/model/families.h"
#include "trainer/model/t5_layers.h"

namespace fsdp {
namespace {

ModelConfig small_t5(FeedForward kind = FeedForward::kRelu, bool tied = true) {
  return {.architecture = "T5ForConditionalGeneration",
          .num_hidden_layers = 2,
          .hidden_size = 24,
          .intermediate_size = 40,
          .num_attention_heads = 4,
          .head_dim = 5,
          .vocab_size = 50,
          .rms_norm_eps = 1e-6,
          .tie_word_embeddings = tied,
          .num_decoder_layers = 3,
          .feed_forward_proj = kind,
          .relative_attention_num_buckets = 8,
          .relative_attention_max_distance = 6};
}

constexpr int64_t kRows = 3;
constexpr int64_t kInputLength = 11;
constexpr int64_t kTargetLength = 7;

Batch some_pairs(at::Device device = at::kCPU) {
  Batch batch;
  batch.input_ids_BT = at::randint(50, {kRows, kInputLength}, at::kLong);
  batch.input_counts_B = at::tensor({11, 4, 9}, at::kLong);
  batch.decoder_input_ids_BT = at::randint(50, {kRows, kTargetLength}, at::kLong);
  batch.labels_BT = at::randint(50, {kRows, kTargetLength}, at::kLong);
  batch.labels_BT[1].narrow(0, 3, 4).fill_(kNoLabel);
  batch.loss_scale = 1.0 / 17;
  for (at::Tensor* ids : {&batch.input_ids_BT, &batch.input_counts_B, &batch.decoder_input_ids_BT,
                          &batch.labels_BT}) {
    *ids = ids->to(device);
  }
  return batch;
}

// Computes the kinds of distances (buckets) of all pairs of tokens, as transformers does.
at::Tensor textbook_kinds(int64_t length, const ModelConfig& config, bool both_ways) {
  const at::Tensor positions = at::arange(length, at::kLong);
  const at::Tensor relative = positions.unsqueeze(0) - positions.unsqueeze(1);
  int64_t kinds = config.relative_attention_num_buckets;
  at::Tensor result = at::zeros({length, length}, at::kLong);
  at::Tensor distance = -at::minimum(relative, at::zeros_like(relative));
  if (both_ways) {
    kinds /= 2;
    result = relative.gt(0).to(at::kLong) * kinds;
    distance = relative.abs();
  }
  const int64_t exact = kinds / 2;
  const double range =
      std::log(static_cast<double>(config.relative_attention_max_distance) / exact);
  const at::Tensor beyond =
      (exact + (at::log(distance.to(at::kFloat) / exact) / range * (kinds - exact)).to(at::kLong))
          .clamp_max(kinds - 1);
  return result + at::where(distance.lt(exact), distance, beyond);
}

// T5 in plain operations. `weights` are named as in checkpoints.
class TextbookT5 {
 public:
  TextbookT5(const ModelConfig& config, std::map<std::string, at::Tensor> weights)
      : config_(config), weights_(std::move(weights)) {}

  at::Tensor loss(const Batch& batch) const {
    const at::Tensor is_seen_BS = at::arange(kInputLength, at::kLong)
                                      .lt(batch.input_counts_B.unsqueeze(1))
                                      .unsqueeze(1)
                                      .unsqueeze(1);
    const at::Tensor causal = at::ones({kTargetLength, kTargetLength}, at::kBool).tril();
    at::Tensor x = at::embedding(weights_.at("shared.weight"), batch.input_ids_BT);
    at::Tensor bias = distance_bias("encoder", kInputLength);
    for (int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      const std::string layer = "encoder.block." + std::to_string(i) + ".layer.";
      const at::Tensor normed = norm(x, layer + "0.layer_norm");
      x = x + attention(normed, normed, layer + "0.SelfAttention.", bias, is_seen_BS);
      x = x + feed_forward(norm(x, layer + "1.layer_norm"), layer + "1.DenseReluDense.");
    }
    const at::Tensor encoded = norm(x, "encoder.final_layer_norm");
    x = at::embedding(weights_.at("shared.weight"), batch.decoder_input_ids_BT);
    bias = distance_bias("decoder", kTargetLength);
    for (int64_t i = 0; i < *config_.num_decoder_layers; ++i) {
      const std::string layer = "decoder.block." + std::to_string(i) + ".layer.";
      const at::Tensor normed = norm(x, layer + "0.layer_norm");
      x = x + attention(normed, normed, layer + "0.SelfAttention.", bias, causal);
      x = x + attention(norm(x, layer + "1.layer_norm"), encoded, layer + "1.EncDecAttention.",
                        at::zeros({1}, x.options()), is_seen_BS);
      x = x + feed_forward(norm(x, layer + "2.layer_norm"), layer + "2.DenseReluDense.");
    }
    x = norm(x, "decoder.final_layer_norm");
    if (config_.tie_word_embeddings) x = x / std::sqrt(static_cast<double>(config_.hidden_size));
    const at::Tensor logits =
        x.matmul(weights_.at(config_.tie_word_embeddings ? "shared.weight" : "lm_head.weight").t());
    return at::cross_entropy_loss(logits.flatten(0, 1), batch.labels_BT.flatten(), /*weight=*/{},
                                  at::Reduction::Sum, kNoLabel) *
           batch.loss_scale;
  }

 private:
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    return x.matmul(weights_.at(name + ".weight").t());
  }
  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    return x * at::rsqrt(x.pow(2).mean(-1, true) + config_.rms_norm_eps) *
           weights_.at(name + ".weight");
  }
  at::Tensor distance_bias(const std::string& stack, int64_t length) const {
    const at::Tensor& table =
        weights_.at(stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight");
    return at::embedding(table, textbook_kinds(length, config_, stack == "encoder"))
        .permute({2, 0, 1});
  }
  at::Tensor attention(const at::Tensor& x, const at::Tensor& seen, const std::string& name,
                       const at::Tensor& bias, const at::Tensor& is_seen) const {
    const auto heads = [&](const at::Tensor& input, const char* projection) {
      const at::Tensor y = linear(input, name + projection);
      return y.view({y.size(0), y.size(1), config_.num_attention_heads, -1}).transpose(1, 2);
    };
    const at::Tensor scores = heads(x, "q").matmul(heads(seen, "k").transpose(2, 3)) + bias;
    const at::Tensor p =
        scores.masked_fill(is_seen.logical_not(), -std::numeric_limits<double>::infinity())
            .softmax(-1);
    return linear(p.matmul(heads(seen, "v")).transpose(1, 2).flatten(2), name + "o");
  }
  at::Tensor feed_forward(const at::Tensor& x, const std::string& name) const {
    if (config_.feed_forward_proj == FeedForward::kRelu) {
      return linear(at::relu(linear(x, name + "wi")), name + "wo");
    }
    return linear(at::gelu(linear(x, name + "wi_0"), "tanh") * linear(x, name + "wi_1"),
                  name + "wo");
  }

  ModelConfig config_;
  std::map<std::string, at::Tensor> weights_;
};

TEST_CASE("a step of T5's modules equals autograd over the whole model") {
  const auto type = GENERATE(at::kDouble, at::kFloat);
  const double tolerance = type == at::kDouble ? 1e-10 : 5e-5;
  const auto kind = GENERATE(FeedForward::kRelu, FeedForward::kGatedGelu);
  const ModelConfig config = small_t5(kind, GENERATE(true, false));
  Model model = make_model(config);
  attach_parameters(model, type);
  const Batch batch = some_pairs();

  auto weights = values_of(model);
  for (auto& [name, weight] : weights) weight = weight.clone().requires_grad_();
  const at::Tensor expected = TextbookT5(config, weights).loss(batch);
  expected.backward();

  CHECK(relative_error(forward_and_backward(model, batch), expected) < 1e-6);
  for (int micro_batches = 1; micro_batches <= 2; ++micro_batches) {
    for (const auto& [name, gradient] : gradients_of(model)) {
      INFO(name);
      CHECK(relative_error(gradient, weights.at(name).grad() * micro_batches) < tolerance);
    }
    forward_and_backward(model, batch);
  }
  const at::Tensor figures = forward_and_backward(model, batch, Tape::Mode::kNoGradients);
  CHECK(relative_error(figures[0], expected) < 1e-5);
}

TEST_CASE("distances have the kinds of transformers, for any length") {
  const ModelConfig published{.architecture = "T5ForConditionalGeneration"};
  for (const ModelConfig& config : {small_t5(), published}) {
    for (const bool both_ways : {true, false}) {
      const at::Tensor kinds = distance_kinds(config.relative_attention_num_buckets,
                                              config.relative_attention_max_distance, both_ways);
      for (const int64_t length : {1, 2, 33, 299, 300}) {
        CHECK(at::equal(kinds_of_pairs(kinds, length).view({length, length}),
                        textbook_kinds(length, config, both_ways)));
      }
    }
  }
}

double loss_with(Model& model, const Batch& batch) {
  return forward_and_backward(model, batch).item<double>();
}

TEST_CASE("dropout follows from the seed alone, and is left out of evaluation") {
  ModelConfig config = small_t5();
  Model without = make_model(config);
  config.dropout_rate = 0.2;
  Model model = make_model(config);
  attach_parameters(model, at::kFloat);
  attach_parameters(without, at::kFloat);
  const auto values = values_of(model);
  for (const auto& [name, value] : values_of(without)) value.copy_(values.at(name));
  Batch batch = some_pairs();
  batch.seed = 5;
  const double loss = loss_with(model, batch);
  const auto gradients = gradients_of(model);
  std::map<std::string, at::Tensor> first;
  for (const auto& [name, gradient] : gradients) first[name] = gradient.clone();
  forget_gradients(model);
  CHECK(loss_with(model, batch) == loss);
  for (const auto& [name, gradient] : gradients_of(model)) CHECK(at::equal(gradient, first[name]));
  batch.seed = 6;
  CHECK(loss_with(model, batch) != loss);
  CHECK(at::equal(forward_and_backward(model, batch, Tape::Mode::kNoGradients),
                  forward_and_backward(without, batch, Tape::Mode::kNoGradients)));
}

TEST_CASE("gradients with dropout are those of differences of the loss") {
  ModelConfig config = small_t5(FeedForward::kGatedGelu);
  config.dropout_rate = 0.3;
  Model model = make_model(config);
  attach_parameters(model, at::kDouble);
  Batch batch = some_pairs();
  batch.seed = 11;
  forward_and_backward(model, batch);
  const auto weights = values_of(model);
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, gradient] : gradients_of(model)) gradients[name] = gradient.clone();
  for (const auto& [name, weight] : weights) {
    INFO(name);
    const at::Tensor direction = at::randn_like(weight);
    constexpr double kStep = 3e-3;  // large, as the loss is in fp32
    const auto moved = [&](double by) {
      weight.add_(direction, by);
      const double loss = loss_with(model, batch);
      weight.add_(direction, -by);
      return loss;
    };
    const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    CHECK(slope ==
          Approx((gradients.at(name) * direction).sum().item<double>()).epsilon(0.02).margin(1e-3));
  }
}

TEST_CASE("what is dropped has the probability, and what stays the mean") {
  AtenKernels kernels(at::kCPU);
  const at::Tensor ones = at::ones({1000, 1000});
  const at::Tensor y = kernels.dropped(ones, {.probability = 0.1, .seed = 3});
  const double dropped = y.eq(0).to(at::kDouble).mean().item<double>();
  CHECK(dropped == Approx(0.1).margin(5 * std::sqrt(0.1 * 0.9 / 1e6)));
  CHECK(at::equal(y.masked_select(y.ne(0)),
                  at::full({y.ne(0).sum().item<int64_t>()}, 1 / 0.9).to(at::kFloat)));
  CHECK_FALSE(at::equal(y, kernels.dropped(ones, {.probability = 0.1, .seed = 4})));
}

TEST_CASE("a step of T5 runs on meta tensors") {
  ModelConfig config = small_t5(GENERATE(FeedForward::kRelu, FeedForward::kGatedGelu));
  config.dropout_rate = 0.1;
  Model model = make_model(config);
  attach_parameters(model, at::TensorOptions(at::kBFloat16).device(at::kMeta));
  CHECK(forward_and_backward(model, some_pairs(at::kMeta)).is_meta());
}

}  // namespace
}  // namespace fsdp
