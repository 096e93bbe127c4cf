#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/trainer/small_decoder.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/step/training_step.h"

namespace fsdp::gradient_dtype_test {

// The gradient norm of a step of `micro_batches` equal micro-batches. Their mean is the loss.
double norm_of_gradient(const PrecisionSpec& precision, int64_t micro_batches, StrategyKind kind,
                        Accumulate accumulate = Accumulate::kSharded) {
  RunSpec spec;
  spec.strategy.kind = kind;
  spec.strategy.ranks = kind == StrategyKind::kSingle ? 1 : 2;
  spec.strategy.accumulate = accumulate;
  spec.precision = precision;
  spec.train.report_gradient_norm = true;
  spec.model.config = tiny_decoder(2);
  at::set_num_threads(1);
  at::manual_seed(1);
  const auto backend = make_backend(at::kCPU);
  MirrorGroup world(static_cast<int>(spec.strategy.ranks));
  const Mesh mesh(spec.strategy, world);
  TrainingStep step(spec, spec.model.config, *backend, mesh, world,
                    [](const Parameter&, int64_t, const at::Tensor& out) {
                      out.copy_(at::randn_like(out) * 0.1);
                    });
  const Batch batch{.input_ids_BT = at::randint(31, {2, 16}, at::kLong),
                    .labels_BT = at::randint(31, {2, 16}, at::kLong),
                    .loss_scale = 1.0 / static_cast<double>(32 * micro_batches)};
  std::vector<Batch> batches(micro_batches, batch);
  return step.run(1, batches, 0.0, 0.0, [] {}).gradient_norm.item<double>();
}

TEST_CASE("a gradient in fp32 keeps what a narrow one loses over 128 micro-batches") {
  PrecisionSpec wide;
  wide.kind = GENERATE(PrecisionKind::kBf16Mixed, PrecisionKind::kBf16True);
  wide.gradients = Dtype::kFp32;
  PrecisionSpec narrow = wide;
  narrow.gradients = Dtype::kBf16;
  const auto drift = [](const PrecisionSpec& precision, auto... strategy) {
    const double alone = norm_of_gradient(precision, 1, strategy...);
    return std::abs(norm_of_gradient(precision, 128, strategy...) / alone - 1);
  };
  CHECK(drift(narrow, StrategyKind::kSingle) > 1e-4);
  CHECK(drift(wide, StrategyKind::kSingle) < 1e-6);
  CHECK(drift(wide, StrategyKind::kFsdp, Accumulate::kUnsharded) < 1e-6);
  CHECK(drift(wide, StrategyKind::kFsdp, Accumulate::kSharded) < 1e-6);
}

TEST_CASE("mixed precision has fp32 gradients unless told otherwise") {
  PrecisionSpec mixed;
  mixed.kind = PrecisionKind::kBf16Mixed;
  PrecisionSpec told = mixed;
  told.gradients = Dtype::kFp32;
  CHECK(norm_of_gradient(mixed, 3, StrategyKind::kDdp) ==
        norm_of_gradient(told, 3, StrategyKind::kDdp));
  told.gradients = Dtype::kBf16;
  CHECK(norm_of_gradient(mixed, 3, StrategyKind::kDdp) !=
        norm_of_gradient(told, 3, StrategyKind::kDdp));
}

}  // namespace fsdp::gradient_dtype_test
