#pragma once

#include <vector>

#include "contract/spec/run_spec.h"
#include "trainer/model/model.h"

namespace fsdp {

// A unit: consecutive modules, [first, last] by index in the model, whose parameters are one flat
// buffer.
struct Unit {
  int first;
  int last;

  bool operator==(const Unit&) const = default;
};

// The model's modules joined as `wrap` says; every module is in one unit, in order.
std::vector<Unit> wrap_modules(const Model& model, const WrapSpec& wrap);

// Whether a later unit reads its parameters too.
bool is_shared(const Model& model, const Unit& unit);

std::vector<ParameterPtr> parameters_of(const Model& model, const Unit& unit);

}  // namespace fsdp
