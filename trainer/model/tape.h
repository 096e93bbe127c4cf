#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "trainer/kernels/kernels.h"

namespace fsdp {

// A tensor between layers, and where those that read it add its gradient.
struct Activation {
  at::Tensor value{};
  std::shared_ptr<GradientBuffer> gradient{};  // null where gradients are not wanted
  // Makes the value once more, where it is not kept for backward (see recomputation.h).
  std::function<at::Tensor()> again{};

  // What a layer saves to read the value in its backward, and how it does so.
  Activation saved() const;
  at::Tensor saved_value() const { return again ? again() : value; }
};

// What one module's forward leaves for its backward: a list of calls, each with what it saved.
class Tape {
 public:
  enum class Mode {
    kNoGradients,  // evaluation
    kForget,       // the forward will be repeated: nothing is kept for now
    kRecord,
  };
  explicit Tape(Mode mode) : mode_(mode) {}

  bool wants_gradients() const { return mode_ != Mode::kNoGradients; }
  bool is_recording() const { return mode_ == Mode::kRecord; }

  // A layer's output. `backward` is called with the output's gradient, once all who read the
  // output have added to it.
  Activation record(at::Tensor value, std::function<void(at::Tensor gradient)> backward);
  // A call without an output of its own.
  void record(std::function<void()> backward);

  // Makes the calls, last first, on this thread; each is forgotten, with what it saved, when done.
  void run_backward();

 private:
  Mode mode_;
  std::vector<std::function<void()>> calls_;
};

}  // namespace fsdp
