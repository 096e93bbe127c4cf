// Runs a module's backward: the recorded calls in reverse. A call's tensors are freed after it.
#include "trainer/model/tape.h"

#include <utility>

namespace fsdp {

Activation Activation::saved() const {
  Activation saved = *this;
  if (again) saved.value.reset();
  return saved;
}

Activation Tape::record(at::Tensor value, std::function<void(at::Tensor gradient)> backward,
                        bool needs_gradient) {
  if (!wants_gradients() || !needs_gradient) return {.value = std::move(value)};
  auto gradient = std::make_shared<GradientBuffer>();
  if (is_recording()) {
    calls_.push_back([gradient, backward = std::move(backward)] { backward(gradient->take()); });
  }
  return {.value = std::move(value), .gradient = std::move(gradient)};
}

void Tape::record(std::function<void()> backward) {
  if (is_recording()) calls_.push_back(std::move(backward));
}

void Tape::run_backward() {
  while (!calls_.empty()) {
    const std::function<void()> call = std::move(calls_.back());
    calls_.pop_back();
    call();
  }
}

}  // namespace fsdp
