#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace fsdp {

// How the files of a git repository stand.
struct GitState {
  std::string commit;         // empty: not known
  std::optional<bool> dirty;  // whether files that git tracks differ from the commit
};

// Asks git for the state of the repository that `folder` is in, while the caller does something
// else. Nothing here fails: without git, a repository or an answer in time the state is not known.
class GitQuery {
 public:
  explicit GitQuery(const std::filesystem::path& folder);
  ~GitQuery();
  GitQuery(const GitQuery&) = delete;
  GitQuery& operator=(const GitQuery&) = delete;

  // Waits until `limit` after the question was asked. To be called once.
  GitState result(std::chrono::milliseconds limit = std::chrono::seconds(2));

 private:
  bool has_ended_well();

  std::chrono::steady_clock::time_point asked_;
  int output_ = -1;     // a pipe's end, -1: none
  pid_t process_ = -1;  // -1: none
};

}  // namespace fsdp
