#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "tests/trainer/model/gradient_check.h"
#include "tests/trainer/model/model_step.h"
#include "trainer/model/families.h"
#include "trainer/model/t5_layers.h"

namespace fsdp::t5_test {

ModelConfig small_t5(FeedForward kind = FeedForward::kRelu) {
  return {.architecture = "T5ForConditionalGeneration",
          .num_hidden_layers = 2,
          .hidden_size = 24,
          .intermediate_size = 40,
          .num_attention_heads = 4,
          .head_dim = 5,
          .vocab_size = 50,
          .rms_norm_eps = 1e-6,
          .tie_word_embeddings = true,
          .num_decoder_layers = 3,
          .feed_forward_proj = kind,
          .relative_attention_num_buckets = 8,
          .relative_attention_max_distance = 6};
}

constexpr int64_t kRows = 3;
constexpr int64_t kInputLength = 11;
constexpr int64_t kTargetLength = 7;

Batch some_pairs() {
  Batch batch;
  batch.input_ids_BT = at::randint(50, {kRows, kInputLength}, at::kLong);
  batch.input_counts_B = at::tensor({11, 4, 9}, at::kLong);
  batch.decoder_input_ids_BT = at::randint(50, {kRows, kTargetLength}, at::kLong);
  batch.labels_BT = at::randint(50, {kRows, kTargetLength}, at::kLong);
  batch.labels_BT[1].narrow(0, 3, 4).fill_(kNoLabel);
  batch.loss_scale = 1.0 / 17;
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

std::map<std::string, at::Tensor> copy_of(std::map<std::string, at::Tensor> tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.clone();
  return tensors;
}

double loss_with(Model& model, const Batch& batch) {
  return forward_and_backward(model, batch).item<double>();
}

TEST_CASE("no token of the decoder sees later ones, and none sees what fills an input up") {
  Model model = make_model(small_t5(GENERATE(FeedForward::kRelu, FeedForward::kGatedGelu)));
  attach_parameters(model, at::kDouble);
  Batch batch = some_pairs();
  batch.labels_BT.narrow(1, 3, 4).fill_(kNoLabel);
  const double loss = loss_with(model, batch);
  batch.decoder_input_ids_BT.narrow(1, 3, 4).fill_(1);
  batch.input_ids_BT[1].narrow(0, 4, 7).fill_(1);
  batch.input_ids_BT[2].narrow(0, 9, 2).fill_(1);
  CHECK(loss_with(model, batch) == Approx(loss).epsilon(1e-6));
  for (at::Tensor* ids : {&batch.decoder_input_ids_BT, &batch.input_ids_BT}) {
    ids->narrow(1, 2, 1).fill_(1);
    CHECK(loss_with(model, batch) != Approx(loss).epsilon(1e-6));
  }
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
  const auto first = copy_of(gradients_of(model));
  forget_gradients(model);
  CHECK(loss_with(model, batch) == loss);
  for (const auto& [name, gradient] : gradients_of(model))
    CHECK(at::equal(gradient, first.at(name)));
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
  const auto gradients = copy_of(gradients_of(model));
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

}  // namespace fsdp::t5_test
