#pragma once

#include <string>
#include <vector>

#include "contract/spec/overrides.h"
#include "runner/experiment/profile.h"

namespace fsdp {

// The keys of `base` that the profile gives another value, or clears: a sentence each, with both
// places. Keys that `outranked` gives are left out, as neither counts.
std::vector<std::string> overridden_keys(const Overrides& base, const Profile& profile,
                                         const Overrides& outranked);

// Throws ConfigError if base names a preset of a model and the profile gives single keys of one.
// Both together would be a model that neither names.
void check_preset(const Overrides& base, const Profile& profile);

}  // namespace fsdp
