// Runs layers a second time, in backward, so that they need to save nothing. The bits are equal.
#include "trainer/model/recomputation.h"

#include "trainer/memory/memory_label.h"

namespace fsdp {
namespace {

MemoryUse use_of(CheckpointedPart part) {
  return part == CheckpointedPart::kMlp ? MemoryUse::kMlp : MemoryUse::kAttention;
}

// Runs the layers' second forward and their backward.
class Again {
 public:
  Again(const Pass& pass, CheckpointedPart part, const Activation& x, const Layers& layers)
      : kernels_(pass.kernels), batch_(pass.batch), part_(part), x_(x.saved()), layers_(layers) {}

  at::Tensor value() {
    if (!y_.gradient) {
      Activations none;
      Pass pass{kernels_, batch_, tape_, none};
      const MemoryScope scope(use_of(part_));
      y_ = layers_(pass, {x_.saved_value(), x_.gradient, x_.again});
    }
    return y_.value;
  }

  void run_backward(at::Tensor dy) {
    value();
    y_.value.reset();
    y_.gradient->add(dy);
    dy.reset();
    tape_.run_backward();
  }

 private:
  Kernels& kernels_;
  const Batch& batch_;
  CheckpointedPart part_;
  Activation x_;
  Layers layers_;
  Tape tape_{Tape::Mode::kRecord};
  Activation y_;
};

}  // namespace

Activation recomputable(Pass& pass, CheckpointedPart part, const Activation& x,
                        const Layers& layers) {
  const MemoryScope scope(use_of(part));
  if (pass.recomputed != part || !pass.tape.is_recording()) return layers(pass, x);
  Tape forgotten(Tape::Mode::kForget);
  Pass first{pass.kernels, pass.batch, forgotten, pass.activations};
  const Activation without_backward = layers(first, x);
  if (!without_backward.needs_gradient()) return without_backward;
  const auto again = std::make_shared<Again>(pass, part, x, layers);
  Activation y = pass.tape.record(without_backward.value,
                                  [again](at::Tensor dy) { again->run_backward(std::move(dy)); });
  y.again = [again] { return again->value(); };
  return y;
}

}  // namespace fsdp
