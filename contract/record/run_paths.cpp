// Names the files and folders of a run. file_name_of() differs for different names.
#include "contract/record/run_paths.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <tuple>

#include "base/files/digest.h"

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr std::array<std::string_view, 3> kSuffixes = {"", ".replaced", ".partial"};

// A name such as "attempt-3" or "step-20.partial".
struct NumberedName {
  int64_t number = 0;
  std::string suffix;
};

// nullopt if the name is not `prefix` followed by a number of at least 0.
std::optional<NumberedName> parse_numbered(const path& file, std::string_view prefix) {
  const std::string name = file.filename();
  if (!name.starts_with(prefix)) return std::nullopt;
  NumberedName parsed;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, parsed.number);
  if (error != std::errc() || parsed.number < 0) return std::nullopt;
  parsed.suffix.assign(rest, end);
  return parsed;
}

}  // namespace

std::vector<int> attempts_with_folder(const RunPaths& paths) {
  constexpr int64_t kLargest = 1'000'000'000;
  std::vector<int> attempts;
  std::error_code hidden;
  if (!std::filesystem::exists(paths.folder(), hidden)) return attempts;
  for (const auto& entry : std::filesystem::directory_iterator(paths.folder())) {
    const auto attempt = parse_numbered(entry.path(), "attempt-");
    const bool is_attempt = attempt && attempt->suffix.empty() && attempt->number <= kLargest;
    if (is_attempt) attempts.push_back(static_cast<int>(attempt->number));
  }
  std::ranges::sort(attempts);
  return attempts;
}

int first_free_attempt(const RunPaths& paths) {
  const std::vector<int> attempts = attempts_with_folder(paths);
  return attempts.empty() ? 1 : attempts.back() + 1;
}

std::vector<CheckpointFolder> list_checkpoint_folders(const RunPaths& paths) {
  std::vector<CheckpointFolder> folders;
  std::error_code not_there;
  for (const auto& entry : std::filesystem::directory_iterator(paths.checkpoints(), not_there)) {
    const auto step = parse_numbered(entry.path(), "step-");
    if (!step) continue;
    const auto suffix = std::ranges::find(kSuffixes, step->suffix);
    if (suffix == kSuffixes.end()) continue;
    const auto state = static_cast<CheckpointFolder::State>(suffix - kSuffixes.begin());
    folders.push_back({step->number, state, entry.path()});
  }
  std::ranges::sort(folders, [](const CheckpointFolder& a, const CheckpointFolder& b) {
    return std::tuple(b.step, a.state) < std::tuple(a.step, b.state);
  });
  return folders;
}

std::optional<int64_t> newest_saved_step(const RunPaths& paths) {
  for (const CheckpointFolder& folder : list_checkpoint_folders(paths)) {
    if (folder.state != CheckpointFolder::State::kPartial) return folder.step;
  }
  return std::nullopt;
}

path checkpoint_folder(const RunPaths& paths, int64_t step, CheckpointFolder::State state) {
  return paths.checkpoint(step) += kSuffixes.at(static_cast<size_t>(state));
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
