// Counts a step's launches and bytes on a GPU, with meta tensors. Tests what clipping and loss
// scaling add.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <ostream>

#include "tests/trainer/kernels/observed_calls.h"
#include "tests/trainer/small_decoder.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/step/training_step.h"

namespace fsdp::bytes_of_step_test {

// Allows for scalars of a whole step, such as the norm.
constexpr int64_t kFewBytes = 2000;

RunSpec tiny_run(PrecisionKind precision) {
  RunSpec spec;
  spec.batch.gradient_accumulation_steps = 1;
  spec.precision.kind = precision;
  spec.model.config = small_decoder(2, 512);
  return spec;
}

struct Traffic {
  size_t launches;
  int64_t kilobytes;  // without products and attention
  bool operator==(const Traffic&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Traffic& traffic) {
  return out << traffic.launches << " launches, " << traffic.kilobytes << " kB";
}

// Calls `sums` when the loss is summed over ranks, which is after the backward.
class SummingGroup : public MirrorGroup {
 public:
  explicit SummingGroup(std::function<void()> sums) : MirrorGroup(1), sums_(std::move(sums)) {}
  Pending all_reduce(at::Tensor tensor, int unit) override {
    sums_();
    return MirrorGroup::all_reduce(tensor, unit);
  }

 private:
  std::function<void()> sums_;
};

at::Tensor tokens(int64_t rows, int64_t columns) {
  return at::zeros({rows, columns}, at::TensorOptions(at::kLong).device(at::kMeta));
}

struct MeasuredStep {
  Traffic forward;                                  // with the loss and its gradient
  Traffic backward;                                 // with roundings
  Traffic update;                                   // norm, clipping, optimizer
  int64_t read = 0, written = 0, of_gradients = 0;  // bytes of the whole step, and all gradients
};

// Runs two steps and measures the second one.
MeasuredStep measured_step(const RunSpec& spec, const Batch& batch = {.input_ids_BT = tokens(1, 32),
                                                                      .labels_BT = tokens(1, 32),
                                                                      .loss_scale = 1.0 / 32}) {
  const ObservedCalls* observed = nullptr;
  ptrdiff_t forward_ends = 0, backward_ends = 0;
  SummingGroup world([&] {
    if (observed) backward_ends = std::ssize(observed->launches());
  });
  const Mesh mesh(spec.strategy, world);
  const auto backend = make_meta_backend(at::kCUDA, KernelSet::kAten);
  TrainingStep step(spec, spec.model.config, *backend, mesh, world,
                    [](const Parameter&, int64_t, const at::Tensor&) {});
  std::vector<Batch> batches{batch};
  step.run(1, batches, 0.1, 0.0, [] {});
  const ObservedCalls calls;
  observed = &calls;
  step.run(2, batches, 0.1, 0.0, [&] { forward_ends = std::ssize(calls.launches()); });
  const std::vector<ObservedCalls::Call> all = calls.launches();
  const auto of = [&](ptrdiff_t begin, ptrdiff_t end) {
    const std::vector<ObservedCalls::Call> part(all.begin() + begin, all.begin() + end);
    UNSCOPED_INFO(ObservedCalls::table_of(part, 1));
    return Traffic{part.size(), ObservedCalls::bytes_moved(part) / 1000};
  };
  MeasuredStep measured{of(0, forward_ends), of(forward_ends, backward_ends),
                        of(backward_ends, std::ssize(all))};
  for (const auto& call : all) {
    measured.read += call.read_bytes;
    measured.written += call.written_bytes;
  }
  for (const at::Tensor& parameters : step.store().optimizer_parameters()) {
    measured.of_gradients += static_cast<int64_t>(parameters.nbytes());
  }
  return measured;
}

// If a change needs less, lower the numbers. If it needs more, say why in the commit message.
TEST_CASE("a whole step of a LLaMA launches and moves as much as it did", "[counts_launches]") {
  RunSpec spec = tiny_run(PrecisionKind::kBf16Mixed);
  spec.optimizer.gradient_clip_norm = 1.0;
  const MeasuredStep traffic = measured_step(
      spec, {.input_ids_BT = tokens(4, 32), .labels_BT = tokens(4, 32), .loss_scale = 1.0 / 128});
  CHECK(traffic.forward == Traffic{42, 1727});
  CHECK(traffic.backward == Traffic{54, 1440});
  CHECK(traffic.update == Traffic{19, 4582});
}

TEST_CASE("a whole step of a T5 launches and moves as much as it did", "[counts_launches]") {
  RunSpec spec = tiny_run(PrecisionKind::kFp32);
  spec.model.config = {.architecture = "T5ForConditionalGeneration",
                       .num_hidden_layers = 2,
                       .hidden_size = 64,
                       .intermediate_size = 96,
                       .num_attention_heads = 4,
                       .head_dim = 16,
                       .vocab_size = 512,
                       .tie_word_embeddings = true,
                       .dropout_rate = 0.1};
  const MeasuredStep traffic =
      measured_step(spec, {.input_ids_BT = tokens(4, 32),
                           .labels_BT = tokens(4, 16),
                           .loss_scale = 1.0 / 64,
                           .decoder_input_ids_BT = tokens(4, 16),
                           .input_counts_B = at::full({4}, 30, tokens(1, 1).options())});
  CHECK(traffic.forward == Traffic{125, 3609});
  CHECK(traffic.backward == Traffic{194, 5493});
  CHECK(traffic.update == Traffic{15, 5075});
}

// Counts the elements of gradients and the bytes of parameters that go to other ranks.
class CountingGroup : public MirrorGroup {
 public:
  using MirrorGroup::MirrorGroup;
  Pending all_gather(at::Tensor output, at::Tensor shard, int unit) override {
    gathered_bytes[unit] += static_cast<int64_t>(output.nbytes());
    return MirrorGroup::all_gather(output, shard, unit);
  }
  Pending reduce_scatter(at::Tensor shard, at::Tensor input, int unit) override {
    reduced += input.numel();
    return MirrorGroup::reduce_scatter(shard, input, unit);
  }

  int64_t reduced = 0;
  std::map<int, int64_t> gathered_bytes;  // by unit
};

TEST_CASE("only gradients of what is trained are reduced, and gathers move what is stored") {
  RunSpec spec = tiny_run(PrecisionKind::kBf16Mixed);
  spec.method = GENERATE(Method::kLora, Method::kQlora);
  spec.strategy.kind = StrategyKind::kFsdp;
  spec.strategy.ranks = 2;
  CountingGroup world(2);
  const Mesh mesh(spec.strategy, world);
  const auto backend = make_meta_backend(at::kCUDA);
  TrainingStep step(spec, spec.model.config, *backend, mesh, world,
                    [](const Parameter&, int64_t, const at::Tensor&) {});
  std::vector<Batch> batches{
      {.input_ids_BT = tokens(1, 32), .labels_BT = tokens(1, 32), .loss_scale = 1.0 / 32}};
  step.run(1, batches, 0.1, 0.0, [] {});
  const ShardStore& store = step.store();
  int64_t trained = 0;
  for (int unit = 0; unit < store.unit_count(); ++unit) {
    int64_t bytes = 2 * store.layout(unit).numel();  // in bf16
    for (const ShardStore::Frozen& frozen : store.frozen(unit)) {
      bytes += 2 * static_cast<int64_t>(frozen.values.nbytes());  // of both ranks
    }
    trained += store.layout(unit).numel();
    const int64_t gathered_bytes = world.gathered_bytes[unit];
    CHECK((gathered_bytes == bytes || gathered_bytes == 2 * bytes));  // forward, or backward too
  }
  CHECK(trained > 0);
  CHECK(world.reduced == trained);
}

TEST_CASE("clipping reads gradients once for their norm and rewrites none") {
  RunSpec spec = tiny_run(PrecisionKind::kBf16True);
  spec.optimizer.rounding = Rounding::kStochastic;
  const MeasuredStep plain = measured_step(spec);
  spec.optimizer.gradient_clip_norm = 1.0;
  const MeasuredStep clipped = measured_step(spec);
  CHECK(clipped.written - plain.written < kFewBytes);
  CHECK(clipped.read - plain.read >= plain.of_gradients);
  CHECK(clipped.read - plain.read < plain.of_gradients + kFewBytes);
}

TEST_CASE("libtorch's fused steps rewrite clipped gradients in the pass that reads them") {
  RunSpec spec = tiny_run(PrecisionKind::kFp32);
  spec.optimizer.kind = GENERATE(OptimizerKind::kAdamW, OptimizerKind::kSgd);
  const MeasuredStep plain = measured_step(spec);
  spec.optimizer.gradient_clip_norm = 1.0;
  const MeasuredStep clipped = measured_step(spec);
  CHECK(clipped.written - plain.written < plain.of_gradients + kFewBytes);
  CHECK(clipped.read - plain.read < plain.of_gradients + kFewBytes);
}

TEST_CASE("float16's loss scale costs no pass over gradients that are clipped anyway") {
  RunSpec spec = tiny_run(PrecisionKind::kBf16Mixed);
  spec.optimizer.gradient_clip_norm = 1.0;
  const MeasuredStep bf16 = measured_step(spec);
  spec.precision.kind = PrecisionKind::kFp16Mixed;
  const MeasuredStep fp16 = measured_step(spec);
  CHECK(std::abs(fp16.written - bf16.written) < kFewBytes);
  CHECK(std::abs(fp16.read - bf16.read) < kFewBytes);
}

}  // namespace fsdp::bytes_of_step_test
