#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/system/program.h"
#include "runner/store/attempts.h"

// The origin of an attempt: program, host, environment, and the state of the experiment's file.
namespace fsdp {

// The version of fsdp-run: "0.1.0".
std::string_view runner_version();

// Returns a JSON object of the variables that may change a run's result or speed, sorted by name.
// Variables with names of secrets are left out.
std::string environment_json(const std::map<std::string, std::string>& variables);

// Returns an attempt's recorded variables, for commands that tell a reader to set them. Leaves out
// variables that environment_json() does not write, and names that a shell does not accept, because
// a merged database may hold any variable. Also leaves out Slurm's, because their job is over.
std::map<std::string, std::string> recorded_variables(const Provenance& provenance);

// The state of a file and of its git repository.
struct GitState {
  std::string commit;             // empty: unknown
  std::optional<bool> dirty;      // true if tracked files differ from the commit
  std::optional<bool> untracked;  // true if git does not track the file; nullopt: unknown
};

// Returns the origin of the attempts that this process starts. An empty digest is unknown.
Provenance provenance_of_this_process(const GitState& git, const std::string& trainer_digest,
                                      std::string_view experiment_text);

// Asks git for the state of `file`, an absolute path, and of its repository, while the caller does
// something else. Without git, or without an answer in time, the state is unknown, which is no
// error. A file in no repository is untracked. No program in the repository's own configuration is
// started. Files with filters (git-lfs) are compared as they are on disk, submodules by their
// commit.
class GitQuery {
 public:
  explicit GitQuery(const std::filesystem::path& file);

  // Waits until `limit` after the constructor's call. Call it once.
  GitState result(std::chrono::milliseconds limit = std::chrono::seconds(2));

 private:
  StartedProgram::Time asked_;
  bool is_in_repository_;
  // Null: the state is unknown.
  std::unique_ptr<StartedProgram> status_;
  std::unique_ptr<StartedProgram> tracked_;  // prints the file's name if git tracks it
};

}  // namespace fsdp
