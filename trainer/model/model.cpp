#include "trainer/model/model.h"

#include <c10/util/accumulate.h>

#include <algorithm>

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

}  // namespace

Parameter::Parameter(ParameterSpec spec)
    : spec_(std::move(spec)), shape_(stacked_shape(spec_.tensors)) {}

int64_t Parameter::numel() const { return c10::multiply_integers(shape_); }

Activation Pass::take(const std::string& name) {
  const auto found = activations.find(name);
  TORCH_CHECK(found != activations.end(), "no module has written '", name, "'");
  Activation activation = std::move(found->second);
  activations.erase(found);
  return activation;
}

Module::Module(const ModuleSpec& spec) : name_(spec.name), is_block_(spec.is_block) {
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

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const auto& module : modules) {
    for (const ParameterPtr& parameter : module->parameters()) count += parameter->numel();
  }
  return count;
}

}  // namespace fsdp
