#include "runner/planned_runs.h"

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include "trainer/contract/config_error.h"
#include "trainer/contract/inputs.h"
#include "trainer/contract/run_paths.h"

namespace fsdp {
namespace {

// A file's name is at most 255 bytes; the rest is for the hash and for comfort.
constexpr size_t kLongestPointInFolder = 120;

}  // namespace

void check_inputs_of(std::span<const Run> runs) {
  // What check_inputs looks at is the model, the data and the total batch, and a training set that
  // is large enough for the largest total is so for all.
  std::vector<const RunSpec*> distinct;
  for (const Run& run : runs) {
    const auto same = std::find_if(distinct.rbegin(), distinct.rend(), [&](const RunSpec* other) {
      return other->model == run.spec.model && other->data == run.spec.data;
    });
    if (same == distinct.rend()) {
      distinct.push_back(&run.spec);
    } else if (total_batch(run.spec) > total_batch(**same)) {
      *same = &run.spec;
    }
  }
  for (const RunSpec* spec : distinct) check_inputs(*spec);
}

std::vector<Store::PlannedRun> planned_runs(const Experiment& experiment, std::vector<Run> runs,
                                            const FileDigest& digest) {
  const std::filesystem::path parent =
      std::filesystem::path("runs") / safe_file_name(experiment.name());
  std::vector<Store::PlannedRun> planned;
  planned.reserve(runs.size());
  std::unordered_map<std::string, size_t> owner_of_folder;
  for (Run& run : runs) {
    const std::string hash = run_hash(run.spec, digest);
    const std::string name =
        safe_file_name(run.point).substr(0, kLongestPointInFolder) + '-' + hash.substr(0, 8);
    const auto [owner, is_new] = owner_of_folder.emplace(name, planned.size());
    if (!is_new) {
      throw ConfigError(experiment.file().string(), "",
                        "the runs '" + planned[owner->second].point + "' and '" + run.point +
                            "' are the same and would share the folder " +
                            (parent / name).string() + "; change or rename one");
    }
    planned.push_back({.point = std::move(run.point),
                       .spec = std::move(run.spec),
                       .hash = hash,
                       .folder = parent / name,
                       .position = run.position});
  }
  return planned;
}

FileDigest remembered(FileDigest digest) {
  const auto digests = std::make_shared<std::map<std::filesystem::path, std::string>>();
  return [digest = std::move(digest), digests](const std::filesystem::path& file) {
    const auto found = digests->find(file);
    if (found != digests->end()) return found->second;
    return digests->emplace(file, digest(file)).first->second;
  };
}

}  // namespace fsdp
