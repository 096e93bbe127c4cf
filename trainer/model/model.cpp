// Parameters and modules of a model. A parameter may stand for several stacked tensors.
#include "trainer/model/model.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

#include "base/files/digest.h"
#include "contract/families/adapters.h"
#include "trainer/kernels/nf4_layout.h"

namespace fsdp {
namespace {

std::vector<int64_t> stacked_shape(const std::vector<NamedTensor>& tensors) {
  TORCH_CHECK(!tensors.empty(), "a parameter needs at least one tensor");
  std::vector<int64_t> shape = tensors.front().shape;
  TORCH_CHECK(!shape.empty(), tensors.front().name, " has no dimensions");
  for (size_t i = 1; i < tensors.size(); ++i) {
    const std::vector<int64_t>& next = tensors[i].shape;
    TORCH_CHECK(
        next.size() == shape.size() && std::equal(next.begin() + 1, next.end(), shape.begin() + 1),
        tensors[i].name, " does not stack on ", tensors.front().name,
        ": they differ beyond dimension 0");
    shape[0] += next[0];
  }
  return shape;
}

int64_t quantized_bytes(const std::vector<NamedTensor>& tensors) {
  int64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) {
    bytes += Nf4Layout{numel_of(tensor)}.bytes();
  }
  return bytes;
}

}  // namespace

Parameter::Parameter(ParameterSpec spec)
    : spec_(std::move(spec)),
      shape_(stacked_shape(spec_.tensors)),
      stored_shape_(spec_.is_quantized ? std::vector{quantized_bytes(spec_.tensors)} : shape_) {}

int64_t Parameter::numel() const { return c10::multiply_integers(shape_); }

int64_t Parameter::stored_numel() const { return c10::multiply_integers(stored_shape_); }

Pass Pass::without_reader() const {
  Pass pass = *this;
  pass.has_no_reader = true;
  return pass;
}

Activation Pass::take(const std::string& name) {
  const auto found = activations.find(name);
  TORCH_CHECK(found != activations.end(), "no module has written '", name, "'");
  Activation activation = std::move(found->second);
  activations.erase(found);
  return activation;
}

Module::Module(const ModuleSpec& spec)
    : name_(spec.name),
      is_block_(spec.is_block),
      adapter_scale_(spec.adapter_scale),
      adapter_dropout_(spec.adapter_dropout) {
  for (const ParameterSpec& parameter : spec.parameters) {
    parameters_.push_back(c10::make_intrusive<Parameter>(parameter));
  }
}

ParameterPtr Module::parameter(const std::string& name) const {
  ParameterPtr found = find_parameter(name);
  TORCH_CHECK(found, name_, " has no parameter '", name, "'");
  return found;
}

ParameterPtr Module::find_parameter(const std::string& name) const {
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  return found == parameters_.end() ? ParameterPtr() : *found;
}

namespace {

std::shared_ptr<const Adapter> make_adapter(const ParameterPtr& weight, ParameterPtr a,
                                            ParameterPtr b, double scale, double dropout) {
  const int64_t rank = b->shape().back();
  auto adapter = std::make_shared<Adapter>(Adapter{
      .a_RD = std::move(a), .b_OR = std::move(b), .parts = {}, .scale = scale, .dropout = dropout});
  adapter->dropout_key =
      std::stoull(text_digest(adapter->a_RD->tensors().front().name).substr(0, 16), nullptr, 16);
  const std::vector<NamedTensor>& adapted = adapter->b_OR->tensors();
  int64_t first_row = 0;
  int64_t first_row_of_b = 0;
  for (const NamedTensor& tensor : weight->tensors()) {
    const std::string stem = tensor.name.substr(0, tensor.name.rfind('.'));
    const int64_t rows = tensor.shape[0];
    if (std::ranges::find(adapted, kAdapterPrefix + stem + ".lora_B.weight", &NamedTensor::name) !=
        adapted.end()) {
      adapter->parts.push_back(
          {first_row, rows, first_row_of_b, std::ssize(adapter->parts) * rank, rank});
      first_row_of_b += rows;
    }
    first_row += rows;
  }
  return adapter;
}

}  // namespace

Linear Module::linear(const std::string& weight) const {
  Linear linear{.weight = parameter(weight), .bias = find_parameter(weight + "_bias")};
  if (ParameterPtr a = find_parameter(weight + "_lora_a")) {
    linear.adapter = make_adapter(linear.weight, std::move(a), parameter(weight + "_lora_b"),
                                  adapter_scale_, adapter_dropout_);
  }
  return linear;
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const auto& module : modules) {
    for (const ParameterPtr& parameter : module->parameters()) count += parameter->numel();
  }
  return count;
}

int64_t Model::trained_parameter_count() const {
  int64_t count = 0;
  for (const auto& module : modules) {
    for (const ParameterPtr& parameter : module->parameters()) {
      if (parameter->is_trained()) count += parameter->numel();
    }
  }
  return count;
}

}  // namespace fsdp
