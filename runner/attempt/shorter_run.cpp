#include "runner/attempt/shorter_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "contract/record/run_paths.h"
#include "runner/experiment/experiment.h"
#include "runner/store/checkpoint_folders.h"

namespace fsdp {
namespace {

using std::filesystem::path;

struct ShorterRun {
  RunRecord record;
  int64_t steps = 0;
  CheckpointFolder checkpoint;
};

// Where it is the same but for a smaller number of steps: that.
std::optional<int64_t> fewer_steps(RunSpec spec, const RunSpec& longer,
                                   const std::string& keys_of_longer) {
  const std::optional<int64_t> steps = std::exchange(spec.train.steps, longer.train.steps);
  if (!steps || *steps >= *longer.train.steps) return std::nullopt;
  return identity_keys(spec) == keys_of_longer ? steps : std::nullopt;
}

// Of those with a whole checkpoint the longest.
std::optional<ShorterRun> longest_shorter_run(const Store& store, const path& results,
                                              const RunToLaunch& run) {
  const std::string keys = identity_keys(run.spec);
  std::optional<ShorterRun> longest;
  for (RunRecord& other : store.runs()) {
    if (other.data_digest != run.record.data_digest || is_under_way(other.status)) continue;
    const auto checkpoints = checkpoints_of(RunPaths(results / other.folder));
    const auto whole = std::ranges::find_if(checkpoints, &CheckpointFolder::is_whole);
    if (whole == checkpoints.end()) continue;
    const auto steps = fewer_steps(store.spec(other.id), run.spec, keys);
    if (!steps || (longest && longest->steps >= *steps)) continue;
    longest = ShorterRun{std::move(other), *steps, *whole};
  }
  return longest;
}

bool depends_on_steps(const ScheduleSpec& schedule) {
  const bool decays_to_the_end =
      schedule.kind == ScheduleKind::kLinear || schedule.kind == ScheduleKind::kCosine;
  return decays_to_the_end && !schedule.decay_steps;
}

// Its files become files of `to` as well: what is done to one folder leaves the other as it is.
void link_folder(const path& from, const path& to) {
  std::filesystem::create_directories(to.parent_path());
  const path partial = to.string() + kPartialExtension;
  std::filesystem::remove_all(partial);
  std::error_code no_links;
  const auto recursive = std::filesystem::copy_options::recursive;
  std::filesystem::copy(from, partial, recursive | std::filesystem::copy_options::create_hard_links,
                        no_links);
  if (no_links) {
    std::filesystem::remove_all(partial);
    std::filesystem::copy(from, partial, recursive);
  }
  std::filesystem::rename(partial, to);
}

}  // namespace

std::string take_over_checkpoint(const Store& store, const path& results, const RunToLaunch& run) {
  const RunPaths paths(results / run.record.folder);
  const bool resumes = run.spec.resume.is_auto && run.spec.train.steps;
  if (!resumes || !checkpoints_of(paths).empty()) return "";
  const std::optional<ShorterRun> shorter = longest_shorter_run(store, results, run);
  if (!shorter) return "";
  if (depends_on_steps(run.spec.schedule)) {
    return fmt::format(
        "{}: begins anew, not from step {} of the run of {} steps: with schedule.kind {} its rates "
        "depend on train.steps; set schedule.decay_steps in both, or resume: {}",
        run.record.point, shorter->checkpoint.step, shorter->steps, name_of(run.spec.schedule.kind),
        shorter->checkpoint.folder.string());
  }
  link_folder(shorter->checkpoint.folder, paths.checkpoint(shorter->checkpoint.step));
  return fmt::format("{}: goes on from step {} of the run of {} steps, {}", run.record.point,
                     shorter->checkpoint.step, shorter->steps, shorter->record.folder.string());
}

}  // namespace fsdp
