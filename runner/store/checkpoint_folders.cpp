#include "runner/store/checkpoint_folders.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "contract/files/input_file.h"
#include "contract/text/foreign_json.h"

namespace fsdp {
namespace {

using std::filesystem::path;

std::optional<int64_t> step_in(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (name.ends_with(kPartialExtension)) {
    name.remove_suffix(std::string_view(kPartialExtension).size());
  }
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

bool is_there(const path& checkpoint, const nlohmann::json& file) {
  const path place = checkpoint / file.at("name").get<std::string>();
  return std::filesystem::file_size(place) == file.at("size_bytes").get<uintmax_t>();
}

// Adds what the checkpoint's trainer.json says; nothing when that is damaged or not there.
void read_state(CheckpointFolder& checkpoint) {
  try {
    const std::string text =
        read_input_file(checkpoint.folder / kTrainerStateName, kLargestTrainerStateBytes);
    const auto state = parse_foreign_json(text, kLargestTrainerStateBytes);
    const auto files = state.value("files", nlohmann::json::array());
    checkpoint.is_whole = checkpoint.folder.extension() != kPartialExtension &&
                          std::ranges::all_of(files, [&](const nlohmann::json& each) {
                            return is_there(checkpoint.folder, each);
                          });
    const auto loss = state.value("validation_loss", nlohmann::json());
    if (loss.is_number()) checkpoint.validation_loss = loss.get<double>();
  } catch (const std::exception&) {
  }
}

}  // namespace

std::vector<CheckpointFolder> checkpoints_of(const RunPaths& paths) {
  std::vector<CheckpointFolder> found;
  std::error_code not_there;
  if (std::filesystem::is_symlink(paths.checkpoints(), not_there)) return {};
  for (const auto& entry : std::filesystem::directory_iterator(paths.checkpoints(), not_there)) {
    const auto step = step_in(entry.path().filename().string());
    if (!step || entry.is_symlink(not_there)) continue;
    CheckpointFolder& checkpoint = found.emplace_back();
    checkpoint.step = *step;
    checkpoint.folder = entry.path();
    read_state(checkpoint);
  }
  std::ranges::sort(found, std::greater(), &CheckpointFolder::step);
  return found;
}

}  // namespace fsdp
