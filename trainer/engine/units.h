#pragma once

#include <vector>

#include "contract/spec/run_spec.h"
#include "trainer/model/model.h"

namespace fsdp {

// Consecutive modules [first, last] of the model, with their parameters in one flat buffer.
struct Unit {
  int first;
  int last;

  bool operator==(const Unit&) const = default;
};

// Joins the model's modules to units by the policy `wrap`. Every module is in one unit, in order.
std::vector<Unit> wrap_modules(const Model& model, const WrapSpec& wrap);

// True if a later unit also reads the unit's parameters.
bool is_shared(const Model& model, const Unit& unit);

std::vector<ParameterPtr> parameters_of(const Model& model, const Unit& unit);

// True if some parameter of the unit is trained.
bool is_trained(const Model& model, const Unit& unit);

}  // namespace fsdp
