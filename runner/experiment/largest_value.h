#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "contract/plan/value_fit.h"
#include "contract/spec/run_spec.h"

namespace fsdp {

// nullopt if the run cannot have the value.
using FitsAt = std::function<std::optional<ValueFit>(int64_t value)>;

// The widest gap between two allowed values of a key in such a run. A total batch, for example, is
// a multiple of the rows that all ranks compute at a time.
int64_t widest_gap(const RunSpec& spec);

// The largest value from 1 to `most` that fits; nullopt if none does. Doubles what fits, then
// bisects, then looks further (see largest_beside). `gap` is the widest gap between allowed values.
std::optional<int64_t> largest_value(int64_t most, int64_t gap, const FitsAt& fits_at);

// The largest value that fits, from `largest` to `most`. Memory may fall as a value rises: a GPU's
// allocator takes whole pages, and with rows of different lengths the data decides. Larger values
// are therefore tried until one is too large, or 64 in a row do not fit.
int64_t largest_beside(int64_t largest, int64_t most, const FitsAt& fits_at);

}  // namespace fsdp
