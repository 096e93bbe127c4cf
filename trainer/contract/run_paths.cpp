#include "trainer/contract/run_paths.h"

#include <algorithm>

#include "trainer/contract/digest.h"

namespace fsdp {

int first_free_attempt(const RunPaths& paths) {
  int attempt = 1;
  while (std::filesystem::exists(paths.attempt(attempt))) ++attempt;
  return attempt;
}

std::string safe_file_name(std::string_view name) {
  std::string safe;
  for (const char c : name) {
    const bool keep = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || (c == '.' && !safe.empty());
    if (keep) {
      safe += c;
    } else if (!safe.empty() && safe.back() != '-') {
      safe += '-';
    }
  }
  while (!safe.empty() && safe.back() == '-') safe.pop_back();
  return safe.empty() ? "run" : safe;
}

std::string file_name_of(std::string_view name) {
  constexpr size_t kLongestSafe = 120;
  std::string safe = safe_file_name(name);
  if (safe == name && safe.size() <= kLongestSafe) return safe;
  safe.resize(std::min(safe.size(), kLongestSafe));
  return safe + '~' + text_digest(name).substr(0, 8);
}

}  // namespace fsdp
