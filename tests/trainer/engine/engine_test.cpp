#include "trainer/engine/engine.h"

#include <catch2/catch.hpp>

#include "trainer/kernels/aten_kernels.h"

using namespace fsdp;

namespace {

// Parameters that are always whole.
class WholeStrategy : public Strategy {
 public:
  bool reshard_after_forward() const override { return false; }
  void begin_micro_batch(bool) override {}
  void gather(int) override {}
  void wait_whole(int) override {}
  void release(int) override {}
  Buffer whole_buffer(int unit) const override { return {BufferKind::kParameters, unit}; }
  void attach_gradient(int) override {}
  void reduce(int) override {}
  void finish_backward() override {}
};

// Drops half of its input, and notes what it dropped; the first one makes the input.
class DropoutModule : public Module {
 public:
  explicit DropoutModule(bool is_first)
      : Module({.name = "dropout", .is_block = true}), is_first_(is_first) {}
  bool is_random() const override { return true; }
  void forward(Pass& pass) override {
    const at::Tensor mask = at::bernoulli(at::full({1000}, 0.5));
    masks.push_back(mask);
    const Activation x = is_first_ ? Activation{.value = at::ones({1000})} : pass.take(kHidden);
    pass.activations[kHidden] =
        pass.tape.record(x.value * mask, [this, x, mask](const at::Tensor& dy) {
          gradients.push_back(dy * mask);
          if (!is_first_) x.gradient->add(gradients.back());
        });
  }

  std::vector<at::Tensor> masks;
  std::vector<at::Tensor> gradients;

 private:
  bool is_first_;
};

class SumModule : public Module {
 public:
  SumModule() : Module({.name = "sum"}) {}
  void forward(Pass& pass) override {
    const Activation x = pass.take(kHidden);
    pass.tape.record([x] { x.gradient->add(at::ones_like(x.value)); });
    pass.activations[kLoss] = {.value = x.value.sum()};
  }
};

struct Dropped {
  std::vector<at::Tensor> first;
  std::vector<at::Tensor> second;
  std::vector<at::Tensor> gradients;  // of what the first one reads
  at::Tensor next_number;             // drawn after the step
};

Dropped train(int64_t checkpoint_every) {
  Model model;
  auto first = std::make_unique<DropoutModule>(true);
  auto second = std::make_unique<DropoutModule>(false);
  const DropoutModule& one = *first;
  const DropoutModule& other = *second;
  model.modules.push_back(std::move(first));
  model.modules.push_back(std::move(second));
  model.modules.push_back(std::make_unique<SumModule>());
  const std::vector<Unit> units = wrap_modules(model, {});
  WholeStrategy strategy;
  const auto streams = make_streams(at::kCPU);
  AtenKernels kernels(at::kCPU);
  Engine engine(model, units, strategy, *streams, kernels, {.checkpoint_every = checkpoint_every});
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(3);
  const std::vector<Batch> batches(2,
                                   {.input_ids_BT = at::zeros({1, 1}, at::kLong), .labels_BT = {}});
  engine.forward_backward(batches, [] {});
  return {one.masks, other.masks, one.gradients, at::rand({1})};
}

}  // namespace

TEST_CASE("a recomputed module draws the numbers of its forward, and nothing else changes") {
  const Dropped kept = train(0);
  const Dropped recomputed = train(1);
  REQUIRE(kept.first.size() == 2);
  REQUIRE(recomputed.first.size() == 4);  // of each micro-batch: forward, then again in backward
  for (const auto& masks : {recomputed.first, recomputed.second}) {
    CHECK(masks[0].equal(masks[1]));
    CHECK(masks[2].equal(masks[3]));
    CHECK_FALSE(masks[0].equal(masks[2]));
  }
  CHECK(kept.first[0].equal(recomputed.first[0]));
  CHECK(kept.first[1].equal(recomputed.first[2]));
  CHECK(kept.second[1].equal(recomputed.second[2]));
  CHECK(kept.next_number.equal(recomputed.next_number));
  REQUIRE(kept.gradients.size() == 2);
  REQUIRE(recomputed.gradients.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(kept.gradients[i].equal(kept.first[i] * kept.second[i]));
    CHECK(kept.gradients[i].equal(recomputed.gradients[i]));
  }
}
