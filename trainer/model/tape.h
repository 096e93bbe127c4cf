#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "trainer/kernels/kernels.h"

namespace fsdp {

// A tensor between layers, and the place where its readers add its gradient.
struct Activation {
  at::Tensor value{};
  // Null if gradients are not wanted, or if the value depends on no trained parameter.
  std::shared_ptr<GradientBuffer> gradient{};
  // Makes the value once more if it is not kept for backward (see recomputation.h).
  std::function<at::Tensor()> again{};

  bool needs_gradient() const { return gradient != nullptr; }
  // saved() returns what a layer saves to read the value in its backward; saved_value() then reads
  // it.
  Activation saved() const;
  at::Tensor saved_value() const { return again ? again() : value; }
};

// A record of one module's forward for its backward: a list of calls, each with its saved values.
class Tape {
 public:
  enum class Mode {
    kNoGradients,  // evaluation
    kForget,       // the forward will be repeated, so nothing is kept yet
    kRecord,
    kRepeat,  // records a forgotten forward, and leaves out values that no backward reads
  };
  explicit Tape(Mode mode) : mode_(mode) {}

  bool wants_gradients() const { return mode_ != Mode::kNoGradients; }
  bool is_recording() const { return mode_ == Mode::kRecord || is_repeating(); }
  bool is_repeating() const { return mode_ == Mode::kRepeat; }

  bool is_empty() const { return calls_.empty(); }

  // Records a layer's output and returns it. `backward` is called with the output's gradient when
  // all readers of the output have added to it. An output without `needs_gradient` has neither
  // gradient nor backward.
  Activation record(at::Tensor value, std::function<void(at::Tensor gradient)> backward,
                    bool needs_gradient = true);
  // Records a call that has no output.
  void record(std::function<void()> backward);

  // Makes the calls in reverse order on this thread. Each call and its saved values are then freed.
  void run_backward();

 private:
  Mode mode_;
  std::vector<std::function<void()>> calls_;
};

}  // namespace fsdp
