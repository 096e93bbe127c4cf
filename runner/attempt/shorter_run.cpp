#include "runner/attempt/shorter_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "contract/record/run_paths.h"
#include "contract/text/config_error.h"
#include "runner/experiment/experiment.h"
#include "runner/store/checkpoint_folders.h"

namespace fsdp {
namespace {

using std::filesystem::path;

struct ShorterRun {
  RunRecord record;
  int64_t steps = 0;
  CheckpointFolder newest;
};

// The steps of a run that differs from the longer one in them only, and has fewer; else none.
std::optional<int64_t> fewer_steps(const Store& store, int64_t shorter, const RunSpec& longer,
                                   const std::string& keys_of_longer) try {
  RunSpec spec = store.spec(shorter);
  const int64_t steps = known_steps(spec.train);
  const bool is_shorter = spec.train.steps && steps < known_steps(longer.train);
  spec.train.steps = longer.train.steps;
  return is_shorter && identity_keys(spec) == keys_of_longer ? std::optional(steps) : std::nullopt;
} catch (const ConfigError&) {  // of another version, in merged results
  return std::nullopt;
}

// Of the runs with a whole checkpoint that the run may continue, the one with the most steps done.
std::optional<ShorterRun> shorter_run(const Store& store, const path& results,
                                      const RunToLaunch& run) {
  const std::string keys = identity_keys(run.spec);
  std::optional<ShorterRun> farthest;
  for (RunRecord& other : store.runs()) {
    const bool is_alike =
        other.data_digest == run.record.data_digest && other.repeat == run.record.repeat;
    if (!is_alike || is_under_way(other.status)) continue;
    const auto steps = fewer_steps(store, other.id, run.spec, keys);
    if (!steps) continue;
    const auto checkpoints = checkpoints_of(RunPaths(results / other.folder));
    const auto whole = std::ranges::find_if(checkpoints, &CheckpointFolder::is_whole);
    if (whole == checkpoints.end()) continue;
    if (farthest && farthest->newest.step >= whole->step) continue;
    farthest = ShorterRun{std::move(other), *steps, *whole};
  }
  return farthest;
}

bool depends_on_steps(const ScheduleSpec& schedule) {
  const bool decays_to_the_end =
      schedule.kind == ScheduleKind::kLinear || schedule.kind == ScheduleKind::kCosine;
  return decays_to_the_end && !schedule.decay_steps;
}

// All of its files become files of `to` as well, or none: what is done to one folder leaves the
// other as it is.
void link_folder(const path& from, const path& to) {
  const path partial = to.string() + kPartialExtension;
  std::error_code ignored;
  std::filesystem::remove_all(partial, ignored);
  try {
    using Options = std::filesystem::copy_options;
    std::filesystem::copy(from, partial,
                          Options::recursive | Options::skip_symlinks | Options::create_hard_links);
    std::filesystem::rename(partial, to);
  } catch (const std::filesystem::filesystem_error&) {
    std::filesystem::remove_all(partial, ignored);
    throw;
  }
}

bool has_checkpoints(const RunPaths& paths) {
  std::error_code not_there;
  return std::filesystem::is_symlink(paths.checkpoints(), not_there) ||
         std::ranges::any_of(checkpoints_of(paths), &CheckpointFolder::is_whole);
}

// Then the trainer has said that none was as it was written, and to move them away.
bool has_failed_with_them(const Store& store, int64_t run) {
  return std::ranges::any_of(store.attempts(run), [](const AttemptRecord& attempt) {
    return attempt.status == RunStatus::kFailed && attempt.continues;
  });
}

}  // namespace

std::string take_over_checkpoints(Store& store, const path& results, const RunToLaunch& run,
                                  int attempt) {
  const RunPaths paths(results / run.record.folder);
  const bool resumes = run.spec.resume.is_auto && run.spec.train.steps;
  if (!resumes || has_checkpoints(paths) || has_failed_with_them(store, run.record.id)) return "";
  const std::optional<ShorterRun> shorter = shorter_run(store, results, run);
  if (!shorter) return "";
  const std::string where =
      fmt::format("from step {} of the run of {} steps", shorter->newest.step, shorter->steps);
  if (depends_on_steps(run.spec.schedule)) {
    return fmt::format(
        "{}: begins anew, not {}: with schedule.kind {} its rates depend on train.steps; set "
        "schedule.decay_steps in both, or resume: {}",
        run.record.point, where, name_of(run.spec.schedule.kind), shorter->newest.folder.string());
  }
  try {
    store.note_continued(run.record.id, attempt, shorter->record.folder);
    link_folder(RunPaths(results / shorter->record.folder).checkpoints(), paths.checkpoints());
  } catch (const std::filesystem::filesystem_error& error) {
    return fmt::format("{}: begins anew, not {}: {}", run.record.point, where, error.what());
  }
  return fmt::format("{}: goes on {}, {}", run.record.point, where,
                     shorter->record.folder.string());
}

}  // namespace fsdp
