#pragma once

#include <c10/core/ScalarType.h>

#include "contract/record/fingerprint.h"
#include "contract/spec/run_spec.h"

namespace fsdp {

// The dtypes of a run, as in FSDP2's MixedPrecisionPolicy.
struct Dtypes {
  at::ScalarType parameters = at::kFloat;  // stored, stepped and clipped
  at::ScalarType compute = at::kFloat;     // of whole units and activations
  at::ScalarType gradients = at::kFloat;   // written and added to by backward
  at::ScalarType reduction = at::kFloat;   // of gradient reductions
  at::ScalarType buffers = at::kFloat;     // rotary tables
};

Dtypes dtypes_of(const PrecisionSpec& precision);

// Returns how a run rounds.
Roundoff roundoff_of(const RunSpec& spec);

at::ScalarType scalar_type_of(Dtype dtype);

}  // namespace fsdp
