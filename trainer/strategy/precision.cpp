// Chooses the dtypes of a run from its precision.
#include "trainer/strategy/precision.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace fsdp {

at::ScalarType scalar_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return at::kFloat;
    case Dtype::kBf16:
      return at::kBFloat16;
    case Dtype::kFp16:
      return at::kHalf;
  }
  TORCH_CHECK(false, "unknown dtype");
}

namespace {

Dtypes dtypes_of_kind(PrecisionKind kind) {
  switch (kind) {
    case PrecisionKind::kFp32:
      return {};
    case PrecisionKind::kBf16True:
      return {.parameters = at::kBFloat16,
              .compute = at::kBFloat16,
              .gradients = at::kBFloat16,
              .reduction = at::kBFloat16};
    case PrecisionKind::kBf16Mixed:
      return {.compute = at::kBFloat16};
    case PrecisionKind::kFp16Mixed:
      return {.compute = at::kHalf};
    case PrecisionKind::kFp64:
      return {.parameters = at::kDouble,
              .compute = at::kDouble,
              .gradients = at::kDouble,
              .reduction = at::kDouble,
              .buffers = at::kDouble};
  }
  TORCH_CHECK(false, "unknown precision");
}

}  // namespace

Dtypes dtypes_of(const PrecisionSpec& precision) {
  Dtypes dtypes = dtypes_of_kind(precision.kind);
  if (precision.parameters || precision.reduction || precision.buffers) {
    const Dtype compute = precision.parameters.value_or(Dtype::kFp32);
    const Dtype reduction = precision.reduction.value_or(compute);
    dtypes = {.parameters = at::kFloat,
              .compute = scalar_type_of(compute),
              .gradients = c10::promoteTypes(scalar_type_of(compute), scalar_type_of(reduction)),
              .reduction = scalar_type_of(reduction),
              .buffers = scalar_type_of(precision.buffers.value_or(Dtype::kFp32))};
  }
  if (precision.gradients) dtypes.gradients = scalar_type_of(*precision.gradients);
  return dtypes;
}

Roundoff roundoff_of(const RunSpec& spec) {
  const auto of = [](at::ScalarType dtype) {
    if (dtype == at::kDouble) return 0x1p-53;
    if (dtype == at::kBFloat16) return 0x1p-8;
    return dtype == at::kHalf ? 0x1p-11 : Roundoff::kFp32;
  };
  const auto of_states = [&](StateDtype dtype) {
    if (dtype == StateDtype::kBf16) return of(at::kBFloat16);
    return dtype == StateDtype::kFp16 ? of(at::kHalf) : Roundoff::kFp32;
  };
  const Dtypes dtypes = dtypes_of(spec.precision);
  const double parameters = of(dtypes.parameters);
  return {
      .compute = of(dtypes.compute),
      .reduction = std::max({of(dtypes.reduction), of(dtypes.gradients), parameters}),
      .parameters = parameters,
      .states = spec.optimizer.state_dtype ? of_states(*spec.optimizer.state_dtype) : parameters};
}

}  // namespace fsdp
