#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "contract/record/program.h"

namespace fsdp {

// The state of a file and of its git repository.
struct GitState {
  std::string commit;             // empty: unknown
  std::optional<bool> dirty;      // true if tracked files differ from the commit
  std::optional<bool> untracked;  // true if git does not track the file; nullopt: unknown
};

// Asks git for the state of `file`, an absolute path, and of its repository, while the caller does
// something else. Nothing here fails. Without git, or without an answer in time, the state is
// unknown. A file in no repository is untracked. No program in the repository's own configuration
// is started. Files with filters count as they are on disk, submodules by their commit.
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
