#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "contract/record/program.h"

namespace fsdp {

// How the files of a git repository stand.
struct GitState {
  std::string commit;         // empty: not known
  std::optional<bool> dirty;  // whether files that git tracks differ from the commit
};

// Asks git for the state of the repository that `folder` is in, while the caller does something
// else. Nothing here fails: without git, a repository or an answer in time the state is not known.
// Nothing that the repository's own configuration names is started: where it has filters, files
// count as they are on disk; of a submodule only its commit counts.
class GitQuery {
 public:
  explicit GitQuery(const std::filesystem::path& folder);

  // Waits until `limit` after the question was asked. To be called once.
  GitState result(std::chrono::milliseconds limit = std::chrono::seconds(2));

 private:
  StartedProgram::Time asked_;
  std::unique_ptr<StartedProgram> status_;  // none: nothing is known
};

}  // namespace fsdp
