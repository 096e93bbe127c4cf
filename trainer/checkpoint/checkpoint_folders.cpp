// Renames and removes folders of checkpoints. A kill at any moment leaves a complete one.
#include "trainer/checkpoint/checkpoint_folders.h"

#include <optional>

#include "base/text/config_error.h"
#include "contract/record/run_paths.h"
#include "trainer/checkpoint/output_file.h"
#include "trainer/checkpoint/trainer_state.h"

namespace fsdp {
namespace {

using std::filesystem::path;

using State = CheckpointFolder::State;

// A damaged checkpoint is never the best one.
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

// Renames the folder first, so a folder that lacks files never has the name of a complete
// checkpoint.
void remove_checkpoint(const RunPaths& paths, int64_t step) {
  const path partial = checkpoint_folder(paths, step, State::kPartial);
  remove_folder(partial);
  rename_folder(paths.checkpoint(step), partial);
  remove_folder(partial);
}

}  // namespace

std::vector<path> checkpoints_newest_first(const RunPaths& paths) {
  std::vector<path> checkpoints;
  for (const CheckpointFolder& folder : list_checkpoint_folders(paths)) {
    if (folder.state != State::kPartial) checkpoints.push_back(folder.folder);
  }
  return checkpoints;
}

void remove_partial_checkpoints(const RunPaths& paths) {
  for (const CheckpointFolder& folder : list_checkpoint_folders(paths)) {
    if (folder.state == State::kPartial) remove_folder(folder.folder);
    if (folder.state != State::kReplaced) continue;
    const path published = paths.checkpoint(folder.step);
    if (std::filesystem::exists(published)) {
      remove_folder(folder.folder);
    } else {
      rename_folder(folder.folder, published);
    }
  }
}

path create_partial_checkpoint(const RunPaths& paths, int64_t step) {
  const path folder = checkpoint_folder(paths, step, State::kPartial);
  remove_folder(folder);
  std::error_code error;
  std::filesystem::create_directory(paths.checkpoints(), error);
  if (!error) std::filesystem::create_directory(folder, error);
  if (error) fail_to_write(folder, error.value());
  return folder;
}

void publish_checkpoint(const RunPaths& paths, int64_t step) {
  const path published = paths.checkpoint(step);
  const path partial = checkpoint_folder(paths, step, State::kPartial);
  const path replaced = checkpoint_folder(paths, step, State::kReplaced);
  sync_folder(partial);
  sync_folder(paths.folder());
  // A folder cannot replace another one that is not empty. Between the two renames, the old one
  // has a name that remove_partial_checkpoints() restores.
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
  std::vector<CheckpointFolder> others = list_checkpoint_folders(paths);
  std::erase_if(others, [&](const CheckpointFolder& folder) {
    return folder.state != State::kComplete || folder.step == written;
  });
  std::optional<int64_t> best;
  std::optional<double> best_loss = read_trainer_state(paths.checkpoint(written)).validation_loss;
  for (const CheckpointFolder& folder : others) {
    const auto state = complete_state(folder.folder);
    if (!state || !state->validation_loss) continue;
    if (!best_loss || *state->validation_loss < *best_loss) {
      best_loss = state->validation_loss;
      best = folder.step;
    }
  }
  for (int64_t newer = 1; const CheckpointFolder& folder : others) {
    const bool is_replaced = folder.step < written && newer++ >= keep;
    if (is_replaced && folder.step != best) remove_checkpoint(paths, folder.step);
  }
}

}  // namespace fsdp
