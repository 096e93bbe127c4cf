#include "runner/commands/local_time.h"

#include <time.h>

#include <array>

namespace fsdp {

std::string local_time(int64_t unix_ms) {
  const time_t seconds = unix_ms / 1000;
  tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) return std::to_string(seconds) + " s after 1970";
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

}  // namespace fsdp
