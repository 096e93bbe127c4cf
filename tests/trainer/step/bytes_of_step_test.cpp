// What clipping and loss scaling cost a GPU beside forward, backward and the optimizer, counted on
// meta tensors.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/trainer/kernels/observed_calls.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/step/training_step.h"

namespace fsdp {
namespace {

// What is added for numbers of a whole step.
constexpr int64_t kFewBytes = 2000;

RunSpec tiny_run(PrecisionKind precision) {
  RunSpec spec;
  spec.batch.gradient_accumulation_steps = 1;
  spec.precision.kind = precision;
  spec.model.config = {.num_hidden_layers = 2,
                       .hidden_size = 64,
                       .intermediate_size = 96,
                       .num_attention_heads = 4,
                       .num_key_value_heads = 2,
                       .vocab_size = 512,
                       .max_position_embeddings = 32};
  return spec;
}

struct StepBytes {
  int64_t read = 0;
  int64_t written = 0;
  int64_t of_gradients = 0;  // of all gradients
};

// Of the second step.
StepBytes bytes_of_step(const RunSpec& spec) {
  MirrorGroup world(1);
  const Mesh mesh(spec.strategy, world);
  const auto backend = make_meta_backend(at::kCUDA);
  TrainingStep step(spec, spec.model.config, *backend, mesh, world,
                    [](const Parameter&, int64_t, const at::Tensor&) {});
  const at::Tensor ids = at::zeros({1, 32}, at::TensorOptions(at::kLong).device(at::kMeta));
  std::vector<Batch> batches{{.input_ids_BT = ids, .labels_BT = ids, .loss_scale = 1.0 / 32}};
  step.run(1, batches, 0.1, 0.0, [] {});
  const ObservedCalls calls;
  step.run(2, batches, 0.1, 0.0, [] {});
  StepBytes bytes;
  for (const auto& call : calls.launches()) {
    bytes.read += call.read_bytes;
    bytes.written += call.written_bytes;
  }
  for (const at::Tensor& parameters : step.store().optimizer_parameters()) {
    bytes.of_gradients += static_cast<int64_t>(parameters.nbytes());
  }
  return bytes;
}

}  // namespace

TEST_CASE("clipping reads gradients once for their norm and rewrites none") {
  RunSpec spec = tiny_run(PrecisionKind::kBf16True);
  spec.optimizer.rounding = Rounding::kStochastic;
  const StepBytes plain = bytes_of_step(spec);
  spec.optimizer.gradient_clip_norm = 1.0;
  const StepBytes clipped = bytes_of_step(spec);
  CHECK(clipped.written - plain.written < kFewBytes);
  CHECK(clipped.read - plain.read >= plain.of_gradients);
  CHECK(clipped.read - plain.read < plain.of_gradients + kFewBytes);
}

TEST_CASE("libtorch's fused steps rewrite clipped gradients in the pass that reads them") {
  RunSpec spec = tiny_run(PrecisionKind::kFp32);
  spec.optimizer.kind = GENERATE(OptimizerKind::kAdamW, OptimizerKind::kSgd);
  const StepBytes plain = bytes_of_step(spec);
  spec.optimizer.gradient_clip_norm = 1.0;
  const StepBytes clipped = bytes_of_step(spec);
  CHECK(clipped.written - plain.written < plain.of_gradients + kFewBytes);
  CHECK(clipped.read - plain.read < plain.of_gradients + kFewBytes);
}

TEST_CASE("float16's loss scale costs no pass over gradients that are clipped anyway") {
  RunSpec spec = tiny_run(PrecisionKind::kBf16Mixed);
  spec.optimizer.gradient_clip_norm = 1.0;
  const StepBytes bf16 = bytes_of_step(spec);
  spec.precision.kind = PrecisionKind::kFp16Mixed;
  const StepBytes fp16 = bytes_of_step(spec);
  CHECK(std::abs(fp16.written - bf16.written) < kFewBytes);
  CHECK(std::abs(fp16.read - bf16.read) < kFewBytes);
}

}  // namespace fsdp
