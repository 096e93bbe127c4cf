#include "runner/sweep/input_changes.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <vector>

#include "runner/experiment/experiment.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/file_digest.h"
#include "trainer/contract/file_state.h"
#include "trainer/contract/inputs.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// The clocks of a job's node, of this host and of a file server differ by less.
constexpr int64_t kClocksDifferMs = 60'000;

// When the file was changed last; of one that is gone, when the nearest folder was.
int64_t changed_unix_ms(path file) {
  struct stat status {};
  while (stat(file.c_str(), &status) != 0 && file.has_relative_path()) file = file.parent_path();
  return status.st_ctim.tv_sec * 1000 + status.st_ctim.tv_nsec / 1'000'000;
}

// The digests of a run's input files now.
class Inputs {
 public:
  Inputs(Store& store, const RunSpec& spec)
      : store_(store), spec_(spec), files_(input_files(spec)) {
    for (const path& file : files_) digests_[file] = current_digest(store, file);
  }

  std::string digest() const {
    return data_digest(spec_, [&](const path& file) {
      const auto found = digests_.find(file);
      return found == digests_.end() ? std::string() : found->second;
    });
  }

  // Those that were changed, from contents that are remembered; all when nobody knows.
  std::vector<path> suspects(const std::string& planned) {
    for (const path& file : files_) {
      const std::string now = digests_[file];
      for (const std::string& earlier : store_.digests_of_path(state_of(file).path)) {
        digests_[file] = earlier;
        if (digest() == planned) return {file};
      }
      digests_[file] = now;
    }
    return files_;
  }

 private:
  Store& store_;
  const RunSpec& spec_;
  std::vector<path> files_;
  std::map<path, std::string> digests_;
};

std::string names(const std::vector<path>& files) {
  constexpr size_t kMostNames = 4;
  if (files.size() == 1) return files.front().string();
  std::string text = "one of its input files (";
  for (size_t i = 0; i < std::min(files.size(), kMostNames); ++i) {
    text += (i == 0 ? "" : ", ") + files[i].string();
  }
  return text + (files.size() > kMostNames ? ", ...)" : ")");
}

}  // namespace

std::string current_digest(Store& store, const path& file) {
  if (const auto known = store.digest(state_of(file))) return *known;
  const HashedFile hashed = hash_file(file);
  if (hashed.is_settled) store.remember_digest(hashed.state, hashed.digest);
  return hashed.digest;
}

std::optional<std::string> changed_input(Store& store, const RunRecord& run, const RunSpec& spec,
                                         std::optional<int64_t> ended_unix_ms) {
  if (run.data_digest.empty()) return std::nullopt;  // planned by a version that kept none
  const auto is_later = [&](const path& file) {
    return ended_unix_ms && changed_unix_ms(file) > *ended_unix_ms + kClocksDifferMs;
  };
  try {
    Inputs inputs(store, spec);
    if (inputs.digest() == run.data_digest) return std::nullopt;
    const std::vector<path> suspects = inputs.suspects(run.data_digest);
    if (std::ranges::any_of(suspects, is_later)) return std::nullopt;
    return names(suspects) + " changed";
  } catch (const ConfigError& error) {
    if (is_later(error.place())) return std::nullopt;
    return error.place() + " " + error.problem();
  }
}

std::vector<FileState> input_states(const RunSpec& spec) {
  std::vector<FileState> states;
  try {
    for (const path& file : input_files(spec)) states.push_back(state_of(file));
  } catch (const ConfigError&) {  // changed_input() says so
  }
  return states;
}

std::optional<std::string> touched_input(const RunSpec& spec,
                                         const std::vector<FileState>& before) {
  const std::vector<FileState> now = input_states(spec);
  const auto [was, is] = std::ranges::mismatch(before, now);
  if (was == before.end()) return std::nullopt;
  return was->path + " was written to, moved or given other rights";
}

AttemptOutcome outcome_of_change(const std::string& changed, const AttemptOutcome& said) {
  return {RunStatus::kFailed,
          changed + " while the run went on; run it again, with files that stay as they are" +
              (said.reason.empty() ? "" : " (" + said.reason + ")"),
          said.reason_rank};
}

void set_tainted_checkpoints_aside(const RunPaths& paths, int attempt) {
  std::error_code there_are_none;
  std::filesystem::rename(paths.checkpoints(), paths.attempt(attempt) / "checkpoints",
                          there_are_none);
}

}  // namespace fsdp
