#pragma once

#include <cstdint>
#include <string>

// Moments as users read and write them.
namespace fsdp {

// "2026-11-21 16:02:11" in the user's time zone.
std::string local_time(int64_t unix_ms);

// A moment in the past, in milliseconds since 1970: a day or a minute in local time ("2026-11-21",
// "2026-11-21T14:30"), or how long before `now_unix_ms` it was ("90s", "30m", "2h", "3d", "1w").
// Throws ConfigError (place: `option`) on anything else.
int64_t moment_unix_ms(const std::string& text, int64_t now_unix_ms, const std::string& option);

}  // namespace fsdp
