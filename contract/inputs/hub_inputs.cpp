#include "contract/inputs/hub_inputs.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "contract/files/hub_cache.h"
#include "contract/files/input_file.h"
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

// Whether every file that an index of weights names is there; false where it is no index.
bool has_shards(const path& index) {
  try {
    const nlohmann::json parsed = parse_json_object(index, read_input_file(index));
    return std::ranges::all_of(parsed.at("weight_map"), [&](const nlohmann::json& shard) {
      return std::filesystem::exists(index.parent_path() / shard.get<std::string>());
    });
  } catch (const std::exception&) {
    return false;
  }
}

// Hugging Face's libraries put files into a snapshot one by one, so that it may have a tokenizer
// and no model.
bool has_model(const path& folder) {
  std::error_code unknown;
  const auto has = [&](const path& name) {
    return std::filesystem::exists(folder / name, unknown);
  };
  if (!has("config.json")) return false;
  for (const std::string whole : {"model.safetensors", "pytorch_model.bin"}) {
    const std::string index = whole + ".index.json";
    if (has(whole) || (has(index) && has_shards(folder / index))) return true;
  }
  return false;
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
    if (cached && (key != "model.source" || has_model(*cached))) member = *cached;
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
