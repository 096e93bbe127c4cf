#include "contract/inputs/hub_inputs.h"

#include <algorithm>
#include <array>

#include "contract/files/hub_cache.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// Calls visit(key, member) for each key that may name what a hub has.
template <typename Spec, typename Visit>
void visit_inputs(Spec& spec, const Visit& visit) {
  visit("model.source", spec.model.source);
  visit("data.train", spec.data.train);
  visit("data.tokenizer", spec.data.tokenizer);
  visit("evaluation.data", spec.evaluation.data);
}

bool is_hub_name(const path& member) { return member.native().starts_with(kHubScheme); }

// Hugging Face's libraries put files into a snapshot one by one, so that it may have a tokenizer
// and no model.
bool has_weights(const path& folder) {
  constexpr std::array kNames{"model.safetensors", "model.safetensors.index.json",
                              "pytorch_model.bin", "pytorch_model.bin.index.json"};
  std::error_code unknown;
  return std::ranges::any_of(
      kNames, [&](const char* name) { return std::filesystem::exists(folder / name, unknown); });
}

}  // namespace

std::vector<HubInput> hub_inputs(const RunSpec& spec) {
  std::vector<HubInput> inputs;
  visit_inputs(spec, [&](const char* key, const path& member) {
    if (is_hub_name(member)) inputs.push_back({key, parse_hub_name(member.native())});
  });
  return inputs;
}

void take_from_cache(RunSpec& spec) {
  visit_inputs(spec, [&](const std::string& key, path& member) {
    if (!is_hub_name(member)) return;
    const auto cached = cached_path(parse_hub_name(member.native()));
    if (cached && (key != "model.source" || has_weights(*cached))) member = *cached;
  });
}

void require_fetched(const RunSpec& spec) {
  for (const auto& [key, name, place] : hub_inputs(spec)) {
    const bool may_be_local = name.path.empty() && !name.is_dataset;
    throw ConfigError(
        place, key,
        name.repository_text() + (name.path.empty() ? "" : "/" + name.path) + " is not in " +
            hub_cache_folder().string() + ", where files of a Hugging Face hub are kept" +
            (may_be_local ? ", and there is no folder of this name" : "") +
            "; fetch it: fsdp-run fetch EXPERIMENT (on a login node, where compute nodes have no "
            "internet), or set HF_HOME to where it is");
  }
}

}  // namespace fsdp
