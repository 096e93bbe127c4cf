#pragma once

#include <cstdint>
#include <string>

namespace fsdp {

// "2026-11-21 16:02:11" in the user's time zone.
std::string local_time(int64_t unix_ms);

}  // namespace fsdp
