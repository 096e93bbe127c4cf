#pragma once

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/kernels/kernels.h"
#include "trainer/model/tape.h"

// A model is a list of modules, which read and write activations by name. A strategy joins
// consecutive modules to units, whose parameters are made whole, used and let go together.
//
// Shape suffixes: B sequences, T tokens of a sequence, D hidden_size.
//
// There is no autograd. A module's forward is made of the layers in layers.h, which read
// Parameter::value when they run (so the value may be another buffer in backward than in forward),
// leave their backward on a tape, and there write the weight's gradient straight into
// Parameter::gradient.
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

  at::Tensor value;         // [shape]; undefined while the module is not whole
  GradientBuffer gradient;  // [shape]; undefined while no gradient buffer is attached

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
  // Null: every row is one document. Whoever makes the batch gives the last token of a document no
  // label, where that would be the first token of the next one.
  DocumentsPtr documents = nullptr;
};

// The names of activations.
inline constexpr const char* kHidden = "hidden";  // [B * T, D], the residual stream
inline constexpr const char* kLoss = "loss";      // see Module::forward

using Activations = std::map<std::string, Activation>;

// What a forward works with.
struct Pass {
  Kernels& kernels;
  const Batch& batch;
  Tape& tape;
  Activations& activations;

  // The activation of that name, for its last reader: it is let go with what is returned.
  Activation take(const std::string& name);
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

  // Reads and writes pass.activations.
  //
  // The last module writes kLoss, 0-dimensional and fp32: the sum over this micro-batch's labels
  // times batch.loss_scale. It writes its own weights' gradients in forward, as if the loss's
  // gradient were 1. Where no gradients are wanted, it writes two numbers [2] there: the loss, and
  // how many labels were the most likely token.
  virtual void forward(Pass& pass) = 0;

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
