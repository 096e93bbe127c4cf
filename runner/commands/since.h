#pragma once

#include <cstdint>
#include <string>

namespace fsdp {

// A moment in the past, in milliseconds since 1970: a day or a minute in local time ("2026-11-21",
// "2026-11-21T14:30"), or how long before `now_unix_ms` it was ("90s", "30m", "2h", "3d", "1w").
// Throws ConfigError (place: `option`) on anything else.
int64_t moment_unix_ms(const std::string& text, int64_t now_unix_ms, const std::string& option);

}  // namespace fsdp
