#pragma once

#include <cstdint>
#include <string>

// Reads and writes times in the form that users know.
namespace fsdp {

// Returns "2026-11-21 16:02:11" in the user's time zone.
std::string local_time(int64_t unix_ms);

// Returns a past moment in milliseconds since 1970. `text` is a day or minute in local time
// ("2026-11-21", "2026-11-21T14:30"), or a time before `now_unix_ms` ("90s", "30m", "2h", "3d",
// "1w"). Throws ConfigError (place: `option`) for any other text.
int64_t moment_unix_ms(const std::string& text, int64_t now_unix_ms, const std::string& option);

}  // namespace fsdp
