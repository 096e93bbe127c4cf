// Records where an attempt comes from. git runs nothing that a stranger's folder configures.
#include "runner/host/provenance.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/files/digest.h"
#include "base/system/processor.h"
#include "base/text/foreign_json.h"
#include "base/text/json.h"

namespace fsdp {
namespace {

constexpr std::array<std::string_view, 11> kPrefixes = {"CUDA_",    "CUBLAS_", "NCCL_", "NVTE_",
                                                        "PYTORCH_", "TORCH_",  "OMP_",  "MKL_",
                                                        "GLOO_",    "SLURM_",  "WANDB_"};
constexpr std::array<std::string_view, 5> kSecrets = {"KEY", "TOKEN", "SECRET", "PASSWORD", "JWT"};

bool matters(std::string_view name) {
  return std::ranges::any_of(kPrefixes, [&](auto prefix) { return name.starts_with(prefix); }) &&
         std::ranges::none_of(kSecrets,
                              [&](auto secret) { return name.find(secret) != name.npos; });
}

bool is_name_of_shell(std::string_view name) {
  return std::ranges::all_of(name, [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  });
}

// --- git ---

// The longest wait for git's list of filters, which takes milliseconds.
constexpr std::chrono::seconds kMostForFilters{2};

// These variables make git look at a repository other than the folder's.
constexpr std::array kOfAnotherRepository = {"GIT_ALTERNATE_OBJECT_DIRECTORIES",
                                             "GIT_COMMON_DIR",
                                             "GIT_DIR",
                                             "GIT_GRAFT_FILE",
                                             "GIT_INDEX_FILE",
                                             "GIT_NAMESPACE",
                                             "GIT_OBJECT_DIRECTORY",
                                             "GIT_PREFIX",
                                             "GIT_REPLACE_REF_BASE",
                                             "GIT_SHALLOW_FILE",
                                             "GIT_WORK_TREE"};

std::vector<std::string> environment_of_git() {
  std::map<std::string, std::string> variables = own_environment();
  for (const char* name : kOfAnotherRepository) variables.erase(name);
  // git must not fetch objects that a partial clone lacks, because this would start programs in the
  // clone's configuration. The second variable is for versions that do not know the first.
  variables["GIT_NO_LAZY_FETCH"] = "1";
  variables["GIT_ALLOW_PROTOCOL"] = "none";
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) lines.push_back(name + '=' + value);
  return lines;
}

// Starts git in a folder that may belong to a stranger. The folder's configuration must start no
// program: hooks, file system monitors, pagers and fetching are off. Callers of commands that run
// filters turn filters off. Variables of the environment that name another repository are unset.
// Returns null if git does not start.
std::unique_ptr<StartedProgram> git(const std::filesystem::path& folder,
                                    const std::vector<std::string>& words) {
  // An empty value turns the monitor off in every version. Some versions would start a program
  // named "false".
  std::vector<std::string> all{"git",
                               "--no-pager",
                               "--no-optional-locks",
                               "-c",
                               "core.fsmonitor=",
                               "-c",
                               "core.hooksPath=/dev/null",
                               "-C",
                               folder.string()};
  all.insert(all.end(), words.begin(), words.end());
  try {
    return std::make_unique<StartedProgram>(all, environment_of_git());
  } catch (const std::system_error&) {
    return nullptr;
  }
}

// Returns the filters in the repository's own configuration, not the user's filters. `output` has a
// scope and a key for each: "local", "filter.lfs.clean".
std::set<std::string> filters_of_repository(const std::string& output) {
  std::set<std::string> filters;
  std::istringstream fields(output);
  for (std::string scope, key; std::getline(fields, scope, '\0');) {
    if (!std::getline(fields, key, '\0')) break;
    if (scope == "local" || scope == "worktree") filters.insert(key.substr(0, key.rfind('.')));
  }
  return filters;
}

// Returns git options that turn these filters off; nullopt if an option cannot hold a filter's
// name.
std::optional<std::vector<std::string>> without(const std::set<std::string>& filters) {
  std::vector<std::string> words;
  for (const std::string& filter : filters) {
    if (filter.find('=') != std::string::npos) return std::nullopt;
    for (const char* setting : {".clean=", ".process=", ".required=false"}) {
      words.insert(words.end(), {"-c", filter + setting});
    }
  }
  return words;
}

bool is_in_repository(std::filesystem::path folder) {
  std::error_code error;
  folder = std::filesystem::weakly_canonical(folder, error);
  while (!std::filesystem::exists(folder / ".git", error)) {
    if (!folder.has_relative_path()) return false;
    folder = folder.parent_path();
  }
  return true;
}

// Parses the lines of `git status --porcelain=v2 --branch`: "# branch.oid <commit>", other
// headings, and one line for each file that differs.
GitState parse(const std::string& output) {
  constexpr std::string_view kCommit = "# branch.oid ";
  GitState state{.commit = "", .dirty = false, .untracked = {}};
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kCommit)) state.commit = line.substr(kCommit.size());
    if (!line.starts_with('#')) state.dirty = true;
  }
  if (state.commit == "(initial)") return {.commit = "", .dirty = {}, .untracked = true};
  return state.commit.empty() ? GitState{} : state;
}

}  // namespace

std::string environment_json(const std::map<std::string, std::string>& variables) {
  JsonObject json;
  for (const auto& [name, value] : variables) {
    if (matters(name)) json.add(name, value);
  }
  return json.text();
}

std::map<std::string, std::string> recorded_variables(const Provenance& provenance) {
  std::map<std::string, std::string> variables;
  try {
    const auto recorded = parse_foreign_json(provenance.environment);
    for (const auto& [name, value] : recorded.items()) {
      const bool is_of_job = name.starts_with("SLURM_");
      if (matters(name) && !is_of_job && is_name_of_shell(name) && value.is_string()) {
        variables[name] = value.get<std::string>();
      }
    }
  } catch (const std::exception&) {  // the record is no JSON
  }
  return variables;
}

std::string_view runner_version() { return FSDP_RUN_VERSION; }

Provenance provenance_of_this_process(const GitState& git, const std::string& trainer_digest,
                                      std::string_view experiment_text) {
  Provenance provenance;
  provenance.git_commit = git.commit;
  provenance.git_dirty = git.dirty;
  provenance.git_untracked = git.untracked;
  provenance.trainer_digest = trainer_digest;
  provenance.experiment_text_digest = text_digest(experiment_text);
  provenance.runner_version = runner_version();
  provenance.cpu_name = processor_name();
  provenance.cpu_cores = sysconf(_SC_NPROCESSORS_ONLN);
  provenance.memory_total_bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  provenance.environment = environment_json(own_environment());
  return provenance;
}

GitQuery::GitQuery(const std::filesystem::path& file)
    : asked_(std::chrono::steady_clock::now()),
      is_in_repository_(is_in_repository(file.parent_path())) {
  if (!is_in_repository_) return;
  const std::filesystem::path folder = file.parent_path();
  const auto question =
      git(folder, {"config", "-z", "--name-only", "--show-scope", "--get-regexp", R"(^filter\.)"});
  if (!question) return;
  const ProgramResult filters = question->wait(asked_ + kMostForFilters);
  if (filters.exit_status != 0 && filters.exit_status != 1) return;  // 1: there are none
  auto words = without(filters_of_repository(filters.output));
  if (!words) return;
  words->insert(words->end(), {"status", "--porcelain=v2", "--branch", "--untracked-files=no",
                               "--ignore-submodules=dirty"});
  status_ = git(folder, *words);
  tracked_ = git(folder, {"ls-files", "--", ":(literal)" + file.filename().string()});
}

GitState GitQuery::result(std::chrono::milliseconds limit) {
  if (!is_in_repository_) return {.commit = "", .dirty = {}, .untracked = true};
  if (!status_ || !tracked_) return {};
  const ProgramResult status = status_->wait(asked_ + limit);
  const ProgramResult tracked = tracked_->wait(asked_ + limit);
  if (status.exit_status != 0) return {};
  GitState state = parse(status.output);
  if (!state.untracked && tracked.exit_status == 0) state.untracked = tracked.output.empty();
  return state;
}

}  // namespace fsdp
