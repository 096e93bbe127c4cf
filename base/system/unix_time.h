#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace fsdp {

// Milliseconds since 1970-01-01 in UTC, as events and the store have them.
inline int64_t now_unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// Milliseconds since the machine started, by a clock that nobody sets.
inline int64_t since_boot_ms() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
}

// Unix time that starts at the system clock's value and then follows a clock that nobody sets. Its
// differences are durations.
class UnixClock {
 public:
  int64_t now_unix_ms() const { return begun_unix_ms_ + since_boot_ms() - begun_boot_ms_; }

 private:
  int64_t begun_unix_ms_ = fsdp::now_unix_ms();
  int64_t begun_boot_ms_ = since_boot_ms();
};

}  // namespace fsdp
