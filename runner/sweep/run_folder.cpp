#include "runner/sweep/run_folder.h"

#include <algorithm>
#include <optional>

#include "runner/host/whole_file.h"
#include "runner/store/named_folders.h"
#include "runner/store/results_unavailable.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/run_spec_yaml.h"

namespace fsdp {
namespace {

bool sets_checkpoints_aside(const RunPaths& paths, const RunRecord& record) {
  return record.status == RunStatus::kFinished && std::filesystem::exists(paths.checkpoints());
}

}  // namespace

void check_are_there(const std::filesystem::path& results) {
  if (std::filesystem::exists(results)) return;
  throw ResultsUnavailable(results.string() + ": is no longer where it was; put the folder back");
}

void write_spec(const RunPaths& paths, const RunSpec& spec) {
  std::filesystem::create_directories(paths.folder());
  write_whole_file(paths.spec(), to_yaml(spec));
}

void set_checkpoints_aside(const RunPaths& paths, const RunRecord& record) {
  if (!sets_checkpoints_aside(paths, record)) return;
  std::filesystem::create_directories(paths.attempt(record.attempt));  // it may have been deleted
  std::filesystem::rename(paths.checkpoints(), paths.attempt(record.attempt) / "checkpoints");
}

void check_checkpoints_are_free(const Store& store, const std::filesystem::path& results,
                                std::span<const RunToLaunch> runs) {
  std::optional<NamedFolders> named;  // read when it is needed
  for (const RunToLaunch& run : runs) {
    const RunPaths paths(results / run.record.folder);
    if (!sets_checkpoints_aside(paths, run.record)) continue;
    if (!named) named.emplace(store, results);
    for (const auto& [by, checkpoint] : named->resumed_from(paths.checkpoints())) {
      if (by.status != RunStatus::kRunning && by.status != RunStatus::kQueued) continue;
      throw ConfigError("--rerun", "",
                        "'" + run.record.point +
                            "' begins anew and would move its checkpoints, and '" + by.experiment +
                            '/' + by.point + "', which is " + std::string(name_of(by.status)) +
                            ", resumes from " + checkpoint.string() +
                            "; wait for that run, or choose others with --only");
    }
  }
}

int claim_attempt(const RunPaths& paths, int first) {
  std::filesystem::create_directories(paths.folder());
  int attempt = std::max(first, first_free_attempt(paths));
  while (!std::filesystem::create_directory(paths.attempt(attempt))) ++attempt;
  return attempt;
}

}  // namespace fsdp
