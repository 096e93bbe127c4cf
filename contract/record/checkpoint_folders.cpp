#include "contract/record/checkpoint_folders.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr std::array<std::string_view, 3> kSuffixes = {"", ".replaced", ".partial"};

// nullopt if the name is not a checkpoint folder's.
std::optional<CheckpointFolder> parse_folder(const path& folder) {
  constexpr std::string_view kPrefix = "step-";
  const std::string name = folder.filename();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  CheckpointFolder parsed{.folder = folder};
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, parsed.step);
  if (error != std::errc() || parsed.step < 0) return std::nullopt;
  const auto suffix = std::ranges::find(kSuffixes, std::string_view(rest, end));
  if (suffix == kSuffixes.end()) return std::nullopt;
  parsed.state = static_cast<CheckpointFolder::State>(suffix - kSuffixes.begin());
  return parsed;
}

}  // namespace

std::vector<CheckpointFolder> list_checkpoint_folders(const RunPaths& paths) {
  std::vector<CheckpointFolder> folders;
  std::error_code not_there;
  for (const auto& entry : std::filesystem::directory_iterator(paths.checkpoints(), not_there)) {
    if (auto folder = parse_folder(entry.path())) folders.push_back(std::move(*folder));
  }
  std::ranges::sort(folders, [](const CheckpointFolder& a, const CheckpointFolder& b) {
    return std::tuple(b.step, a.state) < std::tuple(a.step, b.state);
  });
  return folders;
}

path checkpoint_folder(const RunPaths& paths, int64_t step, CheckpointFolder::State state) {
  return paths.checkpoint(step) += kSuffixes.at(static_cast<size_t>(state));
}

}  // namespace fsdp
