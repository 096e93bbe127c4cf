#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runner/store/store.h"

// The folders that runs have, and the files and folders that they need.
namespace fsdp {

// True if `folder`, relative to the results, has the form runs/<name>/<name>.
bool is_run_folder(const std::filesystem::path& folder);

// True if is_run_folder() holds, the folder exists, and no part of its path below runs/ is a link.
// runs/ itself may be a link. Holds for merged/<name>/runs/<name>/<name>, too, if there is no link.
bool is_own_run_folder(const std::filesystem::path& results, const std::filesystem::path& folder);

// The files and folders that runs read. Links are followed.
class NamedFolders {
 public:
  explicit NamedFolders(const Store& store);

  // Returns the inputs that are the folder, lie in it, or are reached by a link in it.
  std::vector<InputOfRun> inputs_in(const std::filesystem::path& folder) const;

 private:
  std::vector<std::pair<std::set<std::string>, InputOfRun>> inputs_;  // by the names they have
};

}  // namespace fsdp
