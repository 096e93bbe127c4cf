#include "runner/sweep/run_folder.h"

#include <algorithm>

#include "runner/host/whole_file.h"
#include "runner/store/results_unavailable.h"
#include "trainer/contract/run_spec_yaml.h"

namespace fsdp {

void check_are_there(const std::filesystem::path& results) {
  if (std::filesystem::exists(results)) return;
  throw ResultsUnavailable(results.string() + ": is no longer where it was; put the folder back");
}

void write_spec(const RunPaths& paths, const RunSpec& spec) {
  std::filesystem::create_directories(paths.folder());
  write_whole_file(paths.spec(), to_yaml(spec));
}

void set_checkpoints_aside(const RunPaths& paths, const RunRecord& record) {
  if (record.status != RunStatus::kFinished || !std::filesystem::exists(paths.checkpoints()))
    return;
  std::filesystem::create_directories(paths.attempt(record.attempt));  // it may have been deleted
  std::filesystem::rename(paths.checkpoints(), paths.attempt(record.attempt) / "checkpoints");
}

int claim_attempt(const RunPaths& paths, int first) {
  std::filesystem::create_directories(paths.folder());
  int attempt = std::max(first, first_free_attempt(paths));
  while (!std::filesystem::create_directory(paths.attempt(attempt))) ++attempt;
  return attempt;
}

}  // namespace fsdp
