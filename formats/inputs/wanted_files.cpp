#include "formats/inputs/wanted_files.h"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

#include "base/text/config_error.h"
#include "base/text/foreign_json.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"

namespace fsdp {
namespace {

using Files = std::vector<ListedFile>;

constexpr int64_t kLargestIndexBytes = 100'000'000;

// The tokenizer files beside a model that this project or `transformers` reads.
constexpr std::array<std::string_view, 8> kTokenizerFiles{
    "tokenizer.json",      "tokenizer.model",         "spiece.model",
    "added_tokens.json",   "special_tokens_map.json", "tokenizer_config.json",
    "chat_template.jinja", "chat_template.json"};

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

// The file that `input` names, or all in the folder.
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

}  // namespace

std::vector<ListedFile> wanted_files(const HubInput& input, const HubFiles& hub) {
  if (!input.name.path.empty()) return named_files(input, hub);
  const Files files = hub.list("", false);
  Files taken;
  take(files, "config.json", taken);
  for (const std::string_view path : kTokenizerFiles) take(files, path, taken);
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

}  // namespace fsdp
