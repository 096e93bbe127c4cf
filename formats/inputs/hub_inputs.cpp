// Chooses the files of a hub that a run needs. Fetches and runs choose by one function.
#include "formats/inputs/hub_inputs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/files/input_file.h"
#include "base/text/config_error.h"
#include "base/text/foreign_json.h"
#include "base/text/utf8.h"
#include "contract/families/family.h"
#include "contract/spec/yaml_value.h"
#include "formats/tokenizers/tokenizer.h"

namespace fsdp {
namespace {

using std::filesystem::path;
using Files = std::vector<ListedFile>;

constexpr int64_t kLargestIndexBytes = 100'000'000;

// Weights in one file, or in the shards of an index. The first form that exists counts.
struct WeightsForm {
  std::string_view file, index;
};
constexpr std::array kWeights{WeightsForm{"model.safetensors", "model.safetensors.index.json"},
                              WeightsForm{"pytorch_model.bin", "pytorch_model.bin.index.json"}};

const ListedFile* find(const Files& files, std::string_view path) {
  const auto found = std::ranges::find(files, path, &ListedFile::path);
  return found == files.end() ? nullptr : &*found;
}

void take(const Files& files, std::string_view path, Files& taken) {
  if (const ListedFile* file = find(files, path)) taken.push_back(*file);
}

// The files that an index of weights names.
std::set<std::string> shards_of(const std::string& index) {
  const nlohmann::json parsed = parse_foreign_json(index, kLargestIndexBytes);
  std::set<std::string> shards;
  for (const nlohmann::json& shard : parsed.at("weight_map")) {
    shards.insert(shard.get<std::string>());
  }
  return shards;
}

// The file that `input` names, or all files in the folder that it names.
Files named_files(const HubInput& input, const HubFiles& hub) {
  const HubName& name = input.name;
  const size_t slash = name.path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : name.path.substr(0, slash);
  const Files beside = hub.list(folder, false);
  if (const ListedFile* file = find(beside, name.path)) return {*file};
  Files below = hub.list(name.path, true);
  std::erase_if(below,
                [&](const ListedFile& file) { return !file.path.starts_with(name.path + '/'); });
  if (!below.empty()) return below;
  std::vector<std::string> paths;
  for (const ListedFile& file : beside) paths.push_back(file.path);
  constexpr size_t kMostShown = 500;
  throw ConfigError(
      "", input.key,
      name.repository_text() + " has no file '" + name.path + "'" +
          (paths.empty() ? "" : "; beside it there are: " + shortened(joined(paths), kMostShown)) +
          suggestion(name.path, paths));
}

void take_weights(const HubInput& input, const Files& files, const HubFiles& hub, Files& taken) {
  for (const auto& [whole, index_name] : kWeights) {
    if (const ListedFile* file = find(files, whole)) {
      taken.push_back(*file);
      return;
    }
    const ListedFile* index = find(files, index_name);
    if (index == nullptr) continue;
    taken.push_back(*index);
    if (index->size_bytes > kLargestIndexBytes) {
      throw ConfigError("", input.key,
                        input.name.repository_text() + " has an index of weights of " +
                            std::to_string(index->size_bytes) + " bytes; allowed: at most " +
                            std::to_string(kLargestIndexBytes));
    }
    std::set<std::string> shards;
    try {
      shards = shards_of(hub.read(*index));
    } catch (const nlohmann::json::exception&) {
      throw ConfigError(
          "", input.key,
          input.name.repository_text() + ": " + index->path + " is no index of weights");
    }
    for (const std::string& shard : shards) {
      const ListedFile* file = find(files, shard);
      if (file == nullptr) {
        throw ConfigError("", input.key,
                          input.name.repository_text() + ": " + index->path + " names the file '" +
                              visible_line(shortened(shard, kMostOfMessage)) +
                              "', which it does not have");
      }
      taken.push_back(*file);
    }
    return;
  }
  throw ConfigError("", input.key,
                    input.name.repository_text() +
                        " has no weights that can be read; needed: model.safetensors, "
                        "pytorch_model.bin, or one of their indices");
}

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

// "llama318b" for "Llama-3.1-8B"
std::string letters_and_digits(std::string_view name) {
  std::string plain;
  for (const unsigned char c : name) {
    if (std::isalnum(c)) plain += static_cast<char>(std::tolower(c));
  }
  return plain;
}

// Returns the preset of the hub's model: llama2-7b for meta-llama/Llama-2-7b-hf. Empty: none.
std::string preset_of(const HubName& name) {
  const std::string model =
      letters_and_digits(name.repository.substr(name.repository.find('/') + 1));
  std::string found;
  for (const std::string& preset : preset_names()) {
    for (const char* maker : {"", "meta", "open"}) {
      if (preset.size() <= found.size()) continue;
      if (model.starts_with(maker + letters_and_digits(preset))) found = preset;
    }
  }
  return found;
}

// How to plan a model that is not fetched.
std::string remedy_for_plan(const RunSpec& spec, const HubName& model) {
  const std::string preset = preset_of(model);
  if (preset.empty()) return "";
  const bool has_own = spec.data.kind == DataKind::kTokens || spec.data.kind == DataKind::kChess;
  const bool lacks_tokenizer = !has_own && spec.data.tokenizer.empty();
  return "; a plan needs only its architecture: --set model.source=null --set model.config=" +
         preset + (lacks_tokenizer ? " --set data.tokenizer=none" : "");
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

std::vector<ListedFile> wanted_files(const HubInput& input, const HubFiles& hub) {
  if (!input.name.path.empty()) return named_files(input, hub);
  const Files files = hub.list("", false);
  Files taken;
  take(files, "config.json", taken);
  for (const Files& listed : {files, hub.list(kMoreTemplates, false)}) {
    std::ranges::copy_if(listed, std::back_inserter(taken), is_of_tokenizer, &ListedFile::path);
  }
  if (input.key != "model.source") {
    if (!taken.empty()) return taken;
    throw ConfigError(
        "", input.key,
        input.name.repository_text() +
            " has no tokenizer; needed: tokenizer.json, tokenizer.model or spiece.model");
  }
  if (find(files, "config.json") == nullptr) {
    throw ConfigError(
        "", input.key,
        input.name.repository_text() + " has no config.json, so it is no model of transformers");
  }
  take(files, "generation_config.json", taken);
  take_weights(input, files, hub, taken);
  return taken;
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
                      named(name) + " is not complete in " + hub_cache_folder().string() + ": " +
                          (snapshot / file.path).string() +
                          " is missing, or is not what the hub lists; fetch the rest: fsdp-run "
                          "fetch EXPERIMENT");
  };
  HubFiles files;
  files.list = [&](const std::string& folder, bool is_recursive) {
    auto listing = repository.read_listing(commit, folder, is_recursive);
    if (listing) return std::move(listing->files);
    if (folder == kMoreTemplates) return Files{};  // earlier versions did not ask for it
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
  // The same choice as the fetch, from the lists that it kept.
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
      std::string remedy;
      if (input.key == "model.source") remedy = remedy_for_plan(spec, input.name);
      if (path(input.name.path).filename() == "FILE") {  // as imports write it
        remedy = "; write the name of a file in place of FILE; fsdp-run fetch names them";
      }
      throw ConfigError(error.place(), input.key, error.problem() + remedy);
    }
  }
}

}  // namespace fsdp
