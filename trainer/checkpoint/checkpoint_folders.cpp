#include "trainer/checkpoint/checkpoint_folders.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "contract/text/config_error.h"
#include "trainer/checkpoint/output_file.h"
#include "trainer/checkpoint/trainer_state.h"

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kReplaced = ".replaced";

path with_suffix(path folder, std::string_view suffix) { return folder += suffix; }

struct Folder {
  int64_t step;
  std::string suffix;  // "", kPartial or kReplaced
  path folder;
};

// nullopt when the name is none of ours.
std::optional<Folder> parse_folder(const path& folder) {
  const std::string name = folder.filename();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  Folder parsed{.step = 0, .suffix = {}, .folder = folder};
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, parsed.step);
  if (error != std::errc() || parsed.step < 0) return std::nullopt;
  parsed.suffix.assign(rest, end);
  if (!parsed.suffix.empty() && parsed.suffix != kPartial && parsed.suffix != kReplaced) {
    return std::nullopt;
  }
  return parsed;
}

// Most steps first; of one step, step-<N> before step-<N>.replaced.
std::vector<Folder> list_folders(const RunPaths& paths) {
  std::vector<Folder> folders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(paths.checkpoints(), error)) {
    if (auto folder = parse_folder(entry.path())) folders.push_back(std::move(*folder));
  }
  std::ranges::sort(folders, [](const Folder& a, const Folder& b) {
    return a.step != b.step ? a.step > b.step : a.suffix < b.suffix;
  });
  return folders;
}

std::optional<TrainerState> complete_state(const path& folder) {
  try {
    return read_trainer_state(folder);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

void remove_folder(const path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error) fail_to_write(folder, error.value());
}

void rename_folder(const path& from, const path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) fail_to_write(to, error.value());
}

// The name goes first: a folder that lacks files is never called complete.
void remove_checkpoint(const path& folder) {
  const path partial = with_suffix(folder, kPartial);
  remove_folder(partial);
  rename_folder(folder, partial);
  remove_folder(partial);
}

}  // namespace

std::vector<path> checkpoints_newest_first(const RunPaths& paths) {
  std::vector<path> checkpoints;
  for (const Folder& folder : list_folders(paths)) {
    if (folder.suffix != kPartial) checkpoints.push_back(folder.folder);
  }
  return checkpoints;
}

void remove_partial_checkpoints(const RunPaths& paths) {
  for (const Folder& folder : list_folders(paths)) {
    if (folder.suffix == kPartial) remove_folder(folder.folder);
    if (folder.suffix != kReplaced) continue;
    const path published = paths.checkpoint(folder.step);
    if (std::filesystem::exists(published)) {
      remove_folder(folder.folder);
    } else {
      rename_folder(folder.folder, published);
    }
  }
}

path create_partial_checkpoint(const RunPaths& paths, int64_t step) {
  const path folder = with_suffix(paths.checkpoint(step), kPartial);
  remove_folder(folder);
  std::error_code error;
  std::filesystem::create_directory(paths.checkpoints(), error);
  if (!error) std::filesystem::create_directory(folder, error);
  if (error) fail_to_write(folder, error.value());
  return folder;
}

void publish_checkpoint(const RunPaths& paths, int64_t step) {
  const path published = paths.checkpoint(step);
  const path partial = with_suffix(published, kPartial);
  const path replaced = with_suffix(published, kReplaced);
  sync_folder(partial);
  sync_folder(paths.folder());
  if (std::filesystem::exists(published)) {
    remove_folder(replaced);
    rename_folder(published, replaced);
    sync_folder(paths.checkpoints());
  }
  rename_folder(partial, published);
  sync_folder(paths.checkpoints());
  remove_folder(replaced);
}

void remove_old_checkpoints(const RunPaths& paths, int64_t written, int64_t keep) {
  std::vector<Folder> others;
  const Folder* best = nullptr;
  std::optional<double> best_loss = read_trainer_state(paths.checkpoint(written)).validation_loss;
  for (Folder& folder : list_folders(paths)) {
    if (folder.suffix.empty() && folder.step != written) others.push_back(std::move(folder));
  }
  for (const Folder& folder : others) {
    const auto state = complete_state(folder.folder);
    if (!state || !state->validation_loss) continue;
    if (!best_loss || *state->validation_loss < *best_loss) {
      best_loss = state->validation_loss;
      best = &folder;
    }
  }
  for (int64_t newer = 1; const Folder& folder : others) {
    if (newer++ >= keep && &folder != best) remove_checkpoint(folder.folder);
  }
}

}  // namespace fsdp
