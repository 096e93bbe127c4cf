#include "contract/record/run_paths.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "base/files/digest.h"

namespace fsdp {

namespace {

// 0 if `name` is not the name of an attempt's folder.
int attempt_of(std::string_view name) {
  constexpr std::string_view kPrefix = "attempt-";
  constexpr int kLargest = 1'000'000'000;
  int attempt = 0;
  if (!name.starts_with(kPrefix)) return 0;
  name.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), attempt);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && attempt <= kLargest ? attempt : 0;
}

}  // namespace

int first_free_attempt(const RunPaths& paths) {
  int last = 0;
  if (!std::filesystem::exists(paths.folder())) return 1;
  for (const auto& entry : std::filesystem::directory_iterator(paths.folder())) {
    last = std::max(last, attempt_of(entry.path().filename().native()));
  }
  return last + 1;
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
