#pragma once

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>
#include <vector>

// A model is a list of units: pieces whose parameters are made whole, used and let go together.
//
// Shape suffixes: B sequences, T tokens of a sequence, D hidden_size.
//
// Weights are not autograd leaves. A unit's forward is made of the Functions in layers.h, which
// read Parameter::value when they run (so the value may be another buffer in backward than in
// forward) and write the weight's gradient straight into Parameter::gradient. Autograd only carries
// the gradient of activations from a unit's output to its input.
namespace fsdp {

enum class Initialization { kNormal, kOnes };  // kNormal: mean 0, standard deviation 0.02

// A tensor under its checkpoint's (Hugging Face's) name.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// One operand: one checkpoint tensor, or several stacked along dimension 0 (query, key and value
// projections are one matrix product).
class Parameter : public c10::intrusive_ptr_target {
 public:
  Parameter(std::vector<NamedTensor> tensors, Initialization initialization);

  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  Initialization initialization() const { return initialization_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t numel() const;

  at::Tensor value;     // [shape]; undefined while the unit is not whole
  at::Tensor gradient;  // [shape]; undefined while no gradient buffer is attached
  // Whether `gradient` holds something: the first writer of a buffer overwrites, later ones add.
  bool gradient_written = false;

 private:
  std::vector<NamedTensor> tensors_;
  Initialization initialization_;
  std::vector<int64_t> shape_;
};
using ParameterPtr = c10::intrusive_ptr<Parameter>;

inline constexpr int64_t kNoLabel = -100;  // a position that the loss leaves out

// What one micro-batch brings to every unit.
struct Batch {
  at::Tensor input_ids_BT;  // int64
  at::Tensor labels_BT;     // int64, shifted: labels[b, t] follows input_ids[b, t]; or kNoLabel
  double loss_scale = 1.0;  // 1 / labels of the whole global batch
};

class Unit {
 public:
  explicit Unit(std::string name) : name_(std::move(name)) {}
  virtual ~Unit() = default;

  const std::string& name() const { return name_; }
  // The parameters in this unit's flat buffer, in their order there.
  const std::vector<ParameterPtr>& parameters() const { return parameters_; }
  // Whether a later unit reads this unit's parameters too (tied embeddings): they stay whole from
  // this unit's forward until its backward.
  bool is_shared() const { return is_shared_; }
  // Whether activation checkpointing applies to it.
  virtual bool is_block() const { return false; }

  // x_BTD: the previous unit's output. For the first unit an empty tensor that requires a gradient
  // when training, so that autograd reaches the unit. Returns y_BTD; the last unit returns the
  // loss: the sum over this micro-batch's labels times batch.loss_scale, 0-dimensional, fp32. When
  // gradients are enabled the last unit writes its own weights' gradients in forward, as if the
  // loss's gradient were 1.
  virtual at::Tensor forward(const at::Tensor& x_BTD, const Batch& batch) = 0;

 protected:
  std::string name_;
  std::vector<ParameterPtr> parameters_;
  bool is_shared_ = false;
};

struct Model {
  std::vector<std::unique_ptr<Unit>> units;

  int64_t parameter_count() const;
};

}  // namespace fsdp
