#pragma once

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/families/module_spec.h"
#include "contract/spec/training_spec.h"
#include "trainer/kernels/kernels.h"
#include "trainer/model/tape.h"

// A model is a list of modules, which read and write activations by name. The engine joins
// consecutive modules to units. A unit's parameters are gathered (made whole), used and released
// together.
//
// Shape suffixes: B sequences, T tokens of a sequence, D hidden_size.
//
// There is no autograd. A module's forward consists of the layers in layers.h. They read
// Parameter::value when they run, so the value may be another buffer in backward than in forward.
// They leave their backward on a tape. Backward writes the weight's gradient straight into
// Parameter::gradient.
namespace fsdp {

// A parameter with its ParameterSpec, value and gradient.
class Parameter : public c10::intrusive_ptr_target {
 public:
  explicit Parameter(ParameterSpec spec);

  const std::string& name() const { return spec_.name; }  // within its module
  const std::vector<NamedTensor>& tensors() const { return spec_.tensors; }
  Initialization initialization() const { return spec_.initialization; }
  double standard_deviation() const { return spec_.standard_deviation; }
  ParameterRole role() const { return spec_.role; }
  bool is_trained() const { return spec_.is_trained; }
  bool is_quantized() const { return spec_.is_quantized; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t numel() const;

  // The value's shape and size. A quantized value is the bytes of its tensors (nf4_layout.h).
  const std::vector<int64_t>& stored_shape() const { return stored_shape_; }
  int64_t stored_numel() const;

  at::Tensor value;  // [stored_shape]; undefined while the module is not whole
  // [shape]; undefined while no gradient buffer is attached, and always if frozen
  GradientBuffer gradient;

 private:
  ParameterSpec spec_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> stored_shape_;
};
using ParameterPtr = c10::intrusive_ptr<Parameter>;

inline constexpr int64_t kNoLabel = -100;  // a position without loss

// The inputs of one micro-batch to every module.
struct Batch {
  at::Tensor input_ids_BT;  // int64
  at::Tensor labels_BT;     // int64, shifted: labels[b, t] follows input_ids[b, t]; or kNoLabel
  double loss_scale = 1.0;  // 1 / the number of labels in the global batch
  // A factor on every gradient, but not on the loss (dynamic loss scaling for float16).
  double gradient_scale = 1.0;
  // Null if every row is one document. The maker of the batch leaves the last token of a document
  // without a label, unless the label is from the same document.
  DocumentsPtr documents = nullptr;
  bool lengths_vary = false;  // true if rows of other batches may have another length
  // Only for a model of encoder and decoder; its encoder reads input_ids_BT. The decoder's input,
  // int64, has the shape of the labels. The counts, int64, are of each row's input_ids_BT without
  // padding.
  at::Tensor decoder_input_ids_BT{};
  at::Tensor input_counts_B{};
  uint64_t seed = 0;  // the source of the micro-batch's dropout
};

// The names of activations.
inline constexpr const char* kHidden = "hidden";  // [B * T, D], the residual stream
inline constexpr const char* kLoss = "loss";      // see Module::forward

using Activations = std::map<std::string, Activation>;

// The inputs of a forward. Kernels and batch live until the tape has run backward.
struct Pass {
  Kernels& kernels;
  const Batch& batch;
  Tape& tape;
  Activations& activations;
  // The part of the module that backward recomputes, if its layers offer it (see recomputation.h).
  std::optional<CheckpointedPart> recomputed{};
  bool has_no_reader = false;  // see without_reader()

  // Returns the pass for a layer whose value no other layer's backward reads. The tape's repeat
  // leaves it out. PyTorch's checkpoint stops early for the same reason.
  Pass without_reader() const;
  bool wants_value() const { return !has_no_reader || !tape.is_repeating(); }
  // Returns the activation of that name to its last reader, and forgets it.
  Activation take(const std::string& name);
};

// LoRA's factors beside a weight (see contract/families/adapters.h). A weight may be a stack of
// tensors. Each of these tensors that has an adapter is a part. All parts have the same rank.
struct Adapter {
  struct Part {
    int64_t first_row;  // of the weight
    int64_t rows;
    int64_t first_row_of_b;
    int64_t first_column_of_u;
    int64_t rank;

    at::Tensor of_product(const at::Tensor& y_NO) const { return y_NO.narrow(1, first_row, rows); }
    at::Tensor of_u(const at::Tensor& u_NR) const {
      return u_NR.narrow(1, first_column_of_u, rank);
    }
    at::Tensor of_b(const at::Tensor& b) const { return b.narrow(0, first_row_of_b, rows); }
  };
  ParameterPtr a_RD;  // A of all parts, one after another
  ParameterPtr b_OR;  // B of all parts, [rows, rank] each, one after another
  std::vector<Part> parts;
  double scale = 1;
  double dropout = 0;
  uint64_t dropout_key = 0;  // differs for each Adapter
};

// A product with a weight, plus an optional bias (null: none).
struct Linear {
  ParameterPtr weight;                               // [O, D]
  ParameterPtr bias = nullptr;                       // [O]
  std::shared_ptr<const Adapter> adapter = nullptr;  // null: none

  bool is_trained() const { return adapter || weight->is_trained(); }
};

class Module {
 public:
  // Makes the parameters, without values.
  explicit Module(const ModuleSpec& spec);
  virtual ~Module() = default;

  const std::string& name() const { return name_; }
  // Returns the module's own parameters, in their order in its unit's flat buffer.
  const std::vector<ParameterPtr>& parameters() const { return parameters_; }
  // True if a later module also reads this module's parameters (tied embeddings). This module's
  // unit then stays whole from its forward until its backward.
  bool is_shared() const { return is_shared_; }
  // True if activation checkpointing applies to the module.
  bool is_block() const { return is_block_; }
  // Reads and writes pass.activations.
  //
  // The last module writes kLoss, 0-dimensional and fp32: the sum over this micro-batch's labels
  // times batch.loss_scale. It writes its own weights' gradients in forward, as if the loss's
  // gradient were 1. Without gradients, it instead writes two numbers [2]: the loss, and how many
  // labels were the most likely token.
  virtual void forward(Pass& pass) = 0;

 protected:
  // parameter() returns a parameter by its name in the ModuleSpec, which must have it.
  // find_parameter() returns null if there is none.
  ParameterPtr parameter(const std::string& name) const;
  ParameterPtr find_parameter(const std::string& name) const;
  // Returns the weight of that name with its bias and its adapter, if the ModuleSpec has them.
  Linear linear(const std::string& weight) const;

  std::vector<ParameterPtr> parameters_;
  bool is_shared_ = false;

 private:
  std::string name_;
  bool is_block_;
  double adapter_scale_;
  double adapter_dropout_;
};

struct Model {
  std::vector<std::unique_ptr<Module>> modules;

  int64_t parameter_count() const;
  int64_t trained_parameter_count() const;
};

}  // namespace fsdp
