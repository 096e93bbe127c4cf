#pragma once

#include <c10/core/ScalarType.h>

#include "contract/spec/run_spec.h"

namespace fsdp {

// The number formats of a run, as FSDP2's MixedPrecisionPolicy has them.
struct Dtypes {
  at::ScalarType parameters = at::kFloat;  // what is stored, stepped and clipped
  at::ScalarType compute = at::kFloat;     // what a whole unit and activations have
  at::ScalarType gradients = at::kFloat;   // what backward writes, and adds to
  at::ScalarType reduction = at::kFloat;   // what gradients are reduced in
  at::ScalarType buffers = at::kFloat;     // rotary tables
};

Dtypes dtypes_of(const PrecisionSpec& precision);

at::ScalarType scalar_type_of(Dtype dtype);

}  // namespace fsdp
