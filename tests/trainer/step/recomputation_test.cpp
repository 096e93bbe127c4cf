// Checks that activation checkpointing changes no number, and the bytes that it keeps after
// forward.
#include <ATen/Parallel.h>

#include <catch2/catch.hpp>

#include "tests/trainer/small_decoder.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/memory/counting_allocator.h"
#include "trainer/step/training_step.h"

namespace fsdp::recomputation_test {

constexpr int64_t kLayers = 4;
constexpr int64_t kTokensOfBatch = 2 * 32;
constexpr int64_t kHiddenSize = 64;
constexpr int64_t kIntermediateSize = 96;
constexpr int64_t kQueryHeads = 4;
constexpr int64_t kPackedWidth = kHiddenSize * 2;  // with two heads of keys and of values

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters;
  int64_t kept_bytes;  // after the second step's forward
};

Trained train_with(const ActivationCheckpointingSpec& checkpointing,
                   const ModelConfig& config = small_decoder(kLayers, 50)) {
  RunSpec spec;
  spec.activation_checkpointing = checkpointing;
  spec.model.config = config;
  at::set_num_threads(1);
  at::manual_seed(1);
  const auto backend = make_backend(at::kCPU);
  MirrorGroup world(1);
  const Mesh mesh(spec.strategy, world);
  const int64_t bytes_before = CountingAllocator::instance().allocated_bytes();
  TrainingStep step(spec, spec.model.config, *backend, mesh, world,
                    [](const Parameter&, int64_t, const at::Tensor& out) {
                      out.copy_(at::randn_like(out) * 0.1);
                    });
  Batch batch{.input_ids_BT = at::randint(50, {2, 32}, at::kLong),
              .labels_BT = at::randint(50, {2, 32}, at::kLong),
              .loss_scale = 1.0 / kTokensOfBatch,
              .decoder_input_ids_BT = at::randint(50, {2, 32}, at::kLong),
              .input_counts_B = at::tensor({32, 9}, at::kLong)};
  Trained trained;
  for (int i = 1; i <= 3; ++i) {
    batch.seed = i;
    const auto result = step.run(i, {&batch, 1}, 0.01, 0.0, [&] {
      trained.kept_bytes = CountingAllocator::instance().allocated_bytes() - bytes_before;
    });
    trained.losses.push_back(result.loss.item<double>());
  }
  for (const at::Tensor& unit : step.store().optimizer_parameters()) {
    trained.parameters.push_back(unit.clone());
  }
  return trained;
}

TEST_CASE("what is recomputed is not kept, and the same numbers come out") {
  const Trained all_kept = train_with({});
  CHECK(all_kept.losses.back() < all_kept.losses.front());
  const auto check_saving = [&](CheckpointedPart part, int64_t every, int64_t bytes_per_token) {
    const Trained trained = train_with({.every = every, .what = part});
    INFO(name_of(part) << " of every " << every);
    CHECK(trained.losses == all_kept.losses);
    for (size_t unit = 0; unit < trained.parameters.size(); ++unit) {
      CHECK(trained.parameters[unit].equal(all_kept.parameters[unit]));
    }
    const int64_t blocks = kLayers / every;
    CHECK(all_kept.kept_bytes - trained.kept_bytes == blocks * kTokensOfBatch * bytes_per_token);
  };
  const int64_t norm = sizeof(float);
  const int64_t gate_up = 2 * kIntermediateSize * sizeof(float);
  const int64_t attention = (kPackedWidth + kHiddenSize + kQueryHeads) * sizeof(float);
  for (const int64_t every : {1, 2}) {
    check_saving(CheckpointedPart::kMlp, every, gate_up + norm);
    check_saving(CheckpointedPart::kAttention, every, attention + norm);
    // And the residual stream between attention and MLP.
    check_saving(CheckpointedPart::kBlock, every,
                 gate_up + attention + 2 * norm + kHiddenSize * int64_t{sizeof(float)});
  }
}

ModelConfig encoder_decoder(int64_t layers) {
  return {.architecture = "T5ForConditionalGeneration",
          .num_hidden_layers = layers,
          .hidden_size = kHiddenSize,
          .intermediate_size = kIntermediateSize,
          .num_attention_heads = kQueryHeads,
          .vocab_size = 50,
          .tie_word_embeddings = true,
          .dropout_rate = 0.2};
}

TEST_CASE("what dropout drops in forward it drops when that is repeated") {
  const ModelConfig config = encoder_decoder(2);
  const Trained all_kept = train_with({}, config);
  for (const CheckpointedPart part :
       {CheckpointedPart::kBlock, CheckpointedPart::kMlp, CheckpointedPart::kAttention}) {
    INFO(name_of(part));
    const Trained trained = train_with({.every = 1, .what = part}, config);
    CHECK(trained.losses == all_kept.losses);
    for (size_t unit = 0; unit < trained.parameters.size(); ++unit) {
      CHECK(trained.parameters[unit].equal(all_kept.parameters[unit]));
    }
    CHECK(trained.kept_bytes < all_kept.kept_bytes);
  }
}

// No later block reads this block's distance bias.
TEST_CASE("the only block of an encoder may be recomputed") {
  const Trained all_kept = train_with({}, encoder_decoder(1));
  const Trained trained = train_with({.every = 1}, encoder_decoder(1));
  CHECK(trained.losses == all_kept.losses);
}

}  // namespace fsdp::recomputation_test
