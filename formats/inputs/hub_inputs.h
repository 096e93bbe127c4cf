#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "contract/spec/hub_name.h"
#include "contract/spec/run_spec.h"
#include "formats/hub/hub_cache.h"

// The inputs of a run that have names on a Hugging Face hub. A run reads them from the cache that
// `fsdp-run fetch` and Hugging Face's libraries fill. A run never uses the network.
namespace fsdp {

struct HubInput {
  std::string key{};  // "model.source"
  HubName name{};
  std::string place{};  // where it was given; empty: not known

  bool operator==(const HubInput&) const = default;
};

// The inputs in `spec` that have names on a hub.
std::vector<HubInput> hub_inputs(const RunSpec& spec);

// Access to the files of a repository's commit: for a fetch on the hub, for a run in the cache.
struct HubFiles {
  // Lists the files in a folder; an empty name is the repository's root. Includes subfolders if
  // `is_recursive`. A folder that does not exist has no files.
  std::function<std::vector<ListedFile>(const std::string& folder, bool is_recursive)> list;
  // The contents of a file.
  std::function<std::string(const ListedFile& file)> read;
};

// The files that `input` needs. A fetch downloads them, and a run requires all of them. Throws
// ConfigError if the repository lacks a necessary file.
std::vector<ListedFile> wanted_files(const HubInput& input, const HubFiles& files);

// The cached file or folder of `input` at `commit`. The cache must have every file that a fetch
// would download, by the hub's listing. Throws ConfigError with a remedy if it does not.
std::filesystem::path cached_input(const HubInput& input, const std::string& commit);

// Replaces each hub name in `spec` by its cached file or folder if that is complete. Other names
// stay.
void take_from_cache(RunSpec& spec);

// Throws ConfigError with the reason if the cache lacks an input that `spec` still names on a hub.
void require_fetched(const RunSpec& spec);

}  // namespace fsdp
