#include "runner/launch/out_of_memory_kills.h"

#include <fstream>
#include <string>

namespace fsdp {

std::optional<int64_t> out_of_memory_kills(const std::filesystem::path& file) {
  std::ifstream lines(file);
  std::string name;
  for (int64_t count = 0; lines >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return std::nullopt;
}

}  // namespace fsdp
