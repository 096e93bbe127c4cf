#pragma once

#include <chrono>
#include <cstdint>

namespace fsdp {

// Milliseconds since 1970-01-01 in UTC, as events and the store have them.
inline int64_t now_unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace fsdp
