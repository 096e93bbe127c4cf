#pragma once

#include <map>
#include <string>

#include "contract/text/fields.h"
#include "runner/store/comparison.h"

// The keys in which runs differ. Pure.
namespace fsdp {

// Of more keys texts say how many there are.
inline constexpr size_t kMostNamedKeys = 3;

// Values by dotted name.
using Keys = std::map<std::string, std::string>;

// The run's keys that decide more than `least`, without those that are paths; empty if others wrote
// a specification that cannot be read.
Keys keys_beyond(Effect least, const ComparisonRow& run);

// What `own` has in the place of the other's. Of two keys of which one follows from the other it is
// that which was given, or the first.
Keys changed_keys(const Keys& other, const Keys& own);

}  // namespace fsdp
