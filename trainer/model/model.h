#pragma once

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>
#include <vector>

// A model is a list of modules, each of which reads what the one before it gives. A strategy joins
// consecutive modules to units, whose parameters are made whole, used and let go together.
//
// Shape suffixes: B sequences, T tokens of a sequence, D hidden_size.
//
// Weights are not autograd leaves. A module's forward is made of the Functions in layers.h, which
// read Parameter::value when they run (so the value may be another buffer in backward than in
// forward) and write the weight's gradient straight into Parameter::gradient. Autograd only carries
// the gradient of activations from a module's output to its input.
namespace fsdp {

enum class Initialization { kNormal, kOnes };        // kNormal: mean 0, standard deviation 0.02
enum class ParameterRole { kWeight, kNorm, kBias };  // kNorm: the weight of one; kBias: any bias

// A tensor under its checkpoint's (Hugging Face's) name.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// One operand: one checkpoint tensor, or several stacked along dimension 0 (query, key and value
// projections are one matrix product).
class Parameter : public c10::intrusive_ptr_target {
 public:
  Parameter(std::vector<NamedTensor> tensors, Initialization initialization,
            ParameterRole role = ParameterRole::kWeight);

  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  Initialization initialization() const { return initialization_; }
  ParameterRole role() const { return role_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t numel() const;

  at::Tensor value;     // [shape]; undefined while the module is not whole
  at::Tensor gradient;  // [shape]; undefined while no gradient buffer is attached
  // Whether `gradient` holds something: the first writer of a buffer overwrites, later ones add.
  bool gradient_written = false;

 private:
  std::vector<NamedTensor> tensors_;
  Initialization initialization_;
  ParameterRole role_;
  std::vector<int64_t> shape_;
};
using ParameterPtr = c10::intrusive_ptr<Parameter>;

inline constexpr int64_t kNoLabel = -100;  // a position that the loss leaves out

// What one micro-batch brings to every module.
struct Batch {
  at::Tensor input_ids_BT;  // int64
  at::Tensor labels_BT;     // int64, shifted: labels[b, t] follows input_ids[b, t]; or kNoLabel
  double loss_scale = 1.0;  // 1 / labels of the whole global batch
  // Factor on every gradient, but not on the loss (dynamic loss scaling for float16).
  double gradient_scale = 1.0;
};

class Module {
 public:
  explicit Module(std::string name) : name_(std::move(name)) {}
  virtual ~Module() = default;

  const std::string& name() const { return name_; }
  // The parameters that belong to this module, in their order in its unit's flat buffer.
  const std::vector<ParameterPtr>& parameters() const { return parameters_; }
  // Whether a later module reads this module's parameters too (tied embeddings): its unit stays
  // whole from its forward until its backward.
  bool is_shared() const { return is_shared_; }
  // Whether activation checkpointing applies to it.
  virtual bool is_block() const { return false; }
  // Whether its forward draws random numbers (dropout).
  virtual bool is_random() const { return false; }

  // x_BTD: the previous module's output. For the first module an empty tensor that requires a
  // gradient when training, so that autograd reaches the module. Returns y_BTD.
  //
  // The last module returns, 0-dimensional and fp32, the loss: the sum over this micro-batch's
  // labels times batch.loss_scale. When gradients are enabled it writes its own weights' gradients
  // in forward, as if the loss's gradient were 1; when they are not, it returns two numbers [2]:
  // the loss, and how many labels were the most likely token.
  virtual at::Tensor forward(const at::Tensor& x_BTD, const Batch& batch) = 0;

 protected:
  std::string name_;
  std::vector<ParameterPtr> parameters_;
  bool is_shared_ = false;
};

struct Model {
  std::vector<std::unique_ptr<Module>> modules;

  int64_t parameter_count() const;
};

}  // namespace fsdp
