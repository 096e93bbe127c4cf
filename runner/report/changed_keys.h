#pragma once

#include <map>
#include <string>

#include "contract/text/fields.h"
#include "runner/store/comparison.h"

// Finds the keys that differ between runs. Pure.
namespace fsdp {

// Texts name at most this many keys and count the others.
inline constexpr size_t kMostNamedKeys = 3;

// Values by dotted name.
using Keys = std::map<std::string, std::string>;

// Returns the run's keys with an effect greater than `least`, except paths. Empty if the
// specification was written elsewhere and cannot be read.
Keys keys_beyond(Effect least, const ComparisonRow& run);

// Returns the keys of `own` whose values differ from those in `other`. If one key follows from
// another, only the given key is included, or the first of them.
Keys changed_keys(const Keys& other, const Keys& own);

}  // namespace fsdp
