#pragma once

#include <string>
#include <vector>

#include "contract/spec/overrides.h"
#include "runner/experiment/profile.h"

namespace fsdp {

// Returns a sentence, with both places, for each key of `base` that the profile changes or clears.
// Leaves out keys that `outranked` gives, because neither value counts.
std::vector<std::string> overridden_keys(const Overrides& base, const Profile& profile,
                                         const Overrides& outranked);

// Throws ConfigError if base names a preset of a model and the profile gives single keys of one.
// Both together would be a model that neither names.
void check_preset(const Overrides& base, const Profile& profile);

}  // namespace fsdp
