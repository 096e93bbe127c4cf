#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runner/store/store.h"

// The folders that runs have, and the folders that they need.
namespace fsdp {

// True if `folder`, relative to the results, has the form runs/<name>/<name>.
bool is_run_folder(const std::filesystem::path& folder);

// True if is_run_folder() holds, the folder exists, and no part of its path below runs/ is a link.
// runs/ itself may be a link.
bool is_own_run_folder(const std::filesystem::path& results, const std::filesystem::path& folder);

// A run, and the checkpoint in its `resume`.
struct ResumedFrom {
  RunRecord by;
  std::filesystem::path checkpoint;
};

// The folders of all recorded runs, even merged ones, and the checkpoints that these runs resume
// from. Links are followed.
class NamedFolders {
 public:
  NamedFolders(const Store& store, const std::filesystem::path& results);

  // True if the folder of a run that is not in `but` equals `folder`, holds it, or lies in it.
  bool is_of_run(const std::filesystem::path& folder, const std::set<int64_t>& but) const;
  // Returns the runs that resume from the folder, or from one in it.
  std::vector<ResumedFrom> resumed_from(const std::filesystem::path& folder) const;

 private:
  std::vector<std::pair<std::string, int64_t>> folders_;
  std::vector<std::pair<std::string, ResumedFrom>> checkpoints_;
};

}  // namespace fsdp
