#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "contract/record/program.h"

namespace fsdp {

// How a file, and the git repository that it is in, stand.
struct GitState {
  std::string commit;             // empty: not known
  std::optional<bool> dirty;      // whether files that git tracks differ from the commit
  std::optional<bool> untracked;  // whether git does not track the file; absent: not known
};

// Asks git for the state of `file`, an absolute path, and of its repository, while the caller does
// something else. Nothing here fails: without git or an answer in time the state is not known, and
// a file in no repository is untracked. Nothing that the repository's own configuration names is
// started. Files with filters count as they are on disk, submodules by their commit.
class GitQuery {
 public:
  explicit GitQuery(const std::filesystem::path& file);

  // Waits until `limit` after the question was asked. To be called once.
  GitState result(std::chrono::milliseconds limit = std::chrono::seconds(2));

 private:
  StartedProgram::Time asked_;
  bool is_in_repository_;
  // None: nothing is known.
  std::unique_ptr<StartedProgram> status_;
  std::unique_ptr<StartedProgram> tracked_;  // prints the file's name if git tracks it
};

}  // namespace fsdp
