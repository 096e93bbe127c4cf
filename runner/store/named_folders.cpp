#include "runner/store/named_folders.h"

#include "contract/text/config_error.h"

namespace fsdp {
namespace {

using std::filesystem::path;

std::string name_of_folder(const path& folder) {
  const path place = std::filesystem::weakly_canonical(std::filesystem::absolute(folder));
  return (place / "").string();
}

// A specification that cannot be read, as a merged one may be, names nothing.
path resume_of(const Store& store, const RunRecord& run) {
  try {
    return store.spec(run.id).resume.path;
  } catch (const ConfigError&) {
    return {};
  }
}

}  // namespace

NamedFolders::NamedFolders(const Store& store, const path& results) {
  for (const RunRecord& run : store.runs()) {
    folders_.emplace(name_of_folder(results / run.folder), run.id);
    const path checkpoint = resume_of(store, run);
    if (checkpoint.empty()) continue;
    checkpoints_.emplace(name_of_folder(checkpoint), ResumedFrom{run, checkpoint});
  }
}

bool NamedFolders::is_of_run(const path& folder, const std::set<int64_t>& but) const {
  const std::string name = name_of_folder(folder);
  for (auto in_it = folders_.lower_bound(name);
       in_it != folders_.end() && in_it->first.starts_with(name); ++in_it) {
    if (in_it->first != name || !but.contains(in_it->second)) return true;
  }
  for (size_t end = name.find('/'); end + 1 < name.size(); end = name.find('/', end + 1)) {
    if (folders_.contains(name.substr(0, end + 1))) return true;
  }
  return false;
}

std::vector<ResumedFrom> NamedFolders::resumed_from(const path& folder) const {
  const std::string name = name_of_folder(folder);
  std::vector<ResumedFrom> found;
  for (auto in_it = checkpoints_.lower_bound(name);
       in_it != checkpoints_.end() && in_it->first.starts_with(name); ++in_it) {
    found.push_back(in_it->second);
  }
  return found;
}

}  // namespace fsdp
