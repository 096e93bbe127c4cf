#include "runner/attempt/input_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <vector>

#include "contract/files/file_digest.h"
#include "contract/inputs/inputs.h"
#include "contract/text/config_error.h"
#include "runner/experiment/experiment.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// The clocks of a job's node, of this host and of a file server differ by less than this.
constexpr int64_t kClocksDifferMs = 60'000;

// Returns when the file was changed last; for a deleted file, when the nearest existing folder was.
int64_t changed_unix_ms(path file) {
  struct stat status {};
  while (stat(file.c_str(), &status) != 0 && file.has_relative_path()) file = file.parent_path();
  return status.st_ctim.tv_sec * 1000 + status.st_ctim.tv_nsec / 1'000'000;
}

// The present state of an input file.
struct Input {
  path file;
  std::string digest{};  // empty: it cannot be read
  std::string problem = "changed";
};

std::string digest_in_state(Store& store, const path& file, const FileState& state) {
  if (const auto known = store.digest(state)) return *known;
  const HashedFile hashed = hash_file(file);
  if (hashed.is_settled) store.remember_digest(hashed.state, hashed.digest);
  return hashed.digest;
}

Input input_now(Store& store, const path& file) {
  try {
    const FileState state = state_of(file);
    return {.file = file, .digest = digest_in_state(store, file, state)};
  } catch (const ConfigError& error) {
    return {.file = file, .problem = error.problem()};
  }
}

// Returns "" if a file that lists others cannot be read.
std::string digest_of(const RunSpec& spec, const std::vector<Input>& inputs) {
  std::map<path, std::string> digests;
  for (const Input& input : inputs) digests[input.file] = input.digest;
  try {
    return data_digest(spec, [&](const path& file) { return digests[file]; });
  } catch (const ConfigError&) {
    return "";
  }
}

// Returns the one input that differs from the plan, if the store remembers its planned contents;
// otherwise all of them.
std::vector<Input> suspects(Store& store, const RunRecord& run, const std::vector<Input>& inputs) {
  std::vector<Input> as_planned = inputs;
  for (Input& input : as_planned) {
    const std::string now = input.digest;
    std::error_code no_such_folder;
    const path canonical = std::filesystem::weakly_canonical(input.file, no_such_folder);
    for (const std::string& earlier : store.digests_of_path(canonical.string())) {
      input.digest = earlier;
      if (digest_of(run.spec, as_planned) == run.data_digest) return {input};
    }
    input.digest = now;
  }
  return inputs;
}

// Names the first input that cannot be read, else all inputs.
std::string names(const std::vector<Input>& inputs) {
  constexpr size_t kMostNames = 4;
  const auto gone =
      std::ranges::find_if(inputs, [](const Input& each) { return each.digest.empty(); });
  if (gone != inputs.end()) return gone->file.string() + " " + gone->problem;
  if (inputs.size() == 1) return inputs.front().file.string() + " changed";
  const auto name = [](const Input& input) { return input.file.string(); };
  return fmt::format(
      "one of its input files ({}{}) changed",
      fmt::join(inputs | std::views::take(kMostNames) | std::views::transform(name), ", "),
      inputs.size() > kMostNames ? ", ..." : "");
}

// Returns the run's input files. If one that lists others cannot be read, returns this one and the
// files that the specification names.
std::vector<Input> inputs_now(Store& store, const RunSpec& spec) {
  std::vector<Input> inputs;
  std::vector<path> files;
  try {
    for (const auto& [key, file] : input_files(spec)) files.push_back(file);
  } catch (const ConfigError& error) {
    inputs.push_back({.file = error.place(), .problem = error.problem()});
    files = {spec.data.train, spec.data.tokenizer, spec.evaluation.data};
    std::erase(files, path());
  }
  for (const path& file : files) inputs.push_back(input_now(store, file));
  return inputs;
}

}  // namespace

std::string current_digest(Store& store, const path& file) {
  return digest_in_state(store, file, state_of(file));
}

std::optional<std::string> changed_input(Store& store, const RunRecord& run,
                                         std::optional<int64_t> ended_unix_ms) {
  if (run.data_digest.empty()) return std::nullopt;  // planned by a version that kept none
  const std::vector<Input> inputs = inputs_now(store, run.spec);
  if (digest_of(run.spec, inputs) == run.data_digest) return std::nullopt;
  const std::vector<Input> changed = suspects(store, run, inputs);
  const bool all_are_later = std::ranges::all_of(changed, [&](const Input& input) {
    return ended_unix_ms && changed_unix_ms(input.file) > *ended_unix_ms + kClocksDifferMs;
  });
  if (all_are_later) return std::nullopt;
  return names(changed);
}

}  // namespace fsdp
