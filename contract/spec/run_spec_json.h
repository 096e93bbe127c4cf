#pragma once

#include <string>
#include <string_view>

#include "contract/spec/run_spec.h"

namespace fsdp {

// Reads a RunSpec that append_json() wrote, perhaps in another version. A missing key has its
// default, and an unknown key is ignored. Does not resolve it. Throws ConfigError with `place` if
// the text is not a JSON object, or if a key holds a value of another kind or outside of its range.
RunSpec run_spec_from_json(std::string_view text, const std::string& place);

}  // namespace fsdp
