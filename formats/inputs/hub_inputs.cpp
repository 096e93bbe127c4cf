#include "formats/inputs/hub_inputs.h"

#include <algorithm>
#include <utility>

#include "base/files/input_file.h"
#include "base/text/config_error.h"
#include "formats/hub/hub_cache.h"
#include "formats/inputs/wanted_files.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// Calls visit(key, member) for each key that may name an input on a hub.
template <typename Spec, typename Visit>
void visit_inputs(Spec& spec, const Visit& visit) {
  visit("model.source", spec.model.source);
  visit("data.train", spec.data.train);
  visit("data.tokenizer", spec.data.tokenizer);
  visit("evaluation.data", spec.evaluation.data);
}

std::string named(const HubName& name) {
  return name.repository_text() + (name.path.empty() ? "" : "/" + name.path);
}

bool is_hub_name(const path& member) { return member.native().starts_with(kHubScheme); }

[[noreturn]] void refuse_absent(const HubName& name) {
  const bool may_be_local = name.path.empty() && !name.is_dataset;
  throw ConfigError("", "",
                    named(name) + " is not in " + hub_cache_folder().string() +
                        ", where files of a Hugging Face hub are kept" +
                        (may_be_local ? ", and there is no folder of this name" : "") +
                        "; fetch it: fsdp-run fetch EXPERIMENT (on a login node, where compute "
                        "nodes have no internet), or set HF_HOME to where it is");
}

path cached_at_revision(const HubInput& input) {
  const CachedRepository repository(hub_cache_folder(), input.name);
  if (input.name.is_commit()) return cached_input(input, input.name.revision);
  const auto commit = repository.commit_of(input.name.revision);
  if (!commit) refuse_absent(input.name);
  return cached_input(input, *commit);
}

}  // namespace

std::vector<HubInput> hub_inputs(const RunSpec& spec) {
  std::vector<HubInput> inputs;
  visit_inputs(spec, [&](const char* key, const path& member) {
    if (is_hub_name(member)) inputs.push_back({key, parse_hub_name(member.native())});
  });
  return inputs;
}

path cached_input(const HubInput& input, const std::string& commit) {
  const HubName& name = input.name;
  const CachedRepository repository(hub_cache_folder(), name);
  const path snapshot = repository.snapshot(commit);
  const path place = name.path.empty() ? snapshot : snapshot / name.path;
  std::error_code unknown;
  if (!std::filesystem::exists(place, unknown)) refuse_absent(name);
  const auto require = [&](const ListedFile& file) {
    if (repository.has(commit, file)) return;
    throw ConfigError("", "",
                      named(name) + " is not in " + hub_cache_folder().string() +
                          " as a whole: " + (snapshot / file.path).string() +
                          " is missing, or is not what the hub lists; fetch the rest: fsdp-run "
                          "fetch EXPERIMENT");
  };
  HubFiles files;
  files.list = [&](const std::string& folder, bool is_recursive) {
    auto listing = repository.read_listing(commit, folder, is_recursive);
    if (listing) return std::move(listing->files);
    throw ConfigError(
        "", "",
        named(name) + " is in " + hub_cache_folder().string() +
            ", but the hub's list of its files is not, so some may be missing; fsdp-run fetch "
            "EXPERIMENT asks for the list, and brings only what is missing; or give the path " +
            place.string());
  };
  files.read = [&](const ListedFile& file) {
    require(file);
    return read_input_file(snapshot / file.path);
  };
  std::ranges::for_each(wanted_files(input, files), require);
  return place;
}

void take_from_cache(RunSpec& spec) {
  visit_inputs(spec, [&](const char* key, path& member) {
    if (!is_hub_name(member)) return;
    HubInput input;
    input.key = key;
    input.name = parse_hub_name(member.native());
    try {
      member = cached_at_revision(input);
    } catch (const ConfigError&) {  // require_fetched says why
    }
  });
}

void require_fetched(const RunSpec& spec) {
  for (const HubInput& input : hub_inputs(spec)) {
    try {
      cached_at_revision(input);
    } catch (const ConfigError& error) {
      throw ConfigError(error.place(), input.key, error.problem());
    }
  }
}

}  // namespace fsdp
