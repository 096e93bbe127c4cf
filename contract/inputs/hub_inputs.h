#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/spec/run_spec.h"
#include "contract/text/hub_name.h"

// What of a run's inputs is named as on a Hugging Face hub. A run reads it from the cache that
// `fsdp-run fetch` and Hugging Face's libraries fill; it never touches the network.
namespace fsdp {

struct HubInput {
  std::string key{};  // "model.source"
  HubName name{};
  std::string place{};  // where it was given; empty: not known

  bool operator==(const HubInput&) const = default;
};

// Those that stand in `spec` by such a name.
std::vector<HubInput> hub_inputs(const RunSpec& spec);

// The file or folder of the cache that `input` is at `commit`. It is taken only if every file that
// a fetch would bring is there, by what the hub listed. Throws ConfigError, which says what to do.
std::filesystem::path cached_input(const HubInput& input, const std::string& commit);

// Puts the file or folder of the cache in the place of each name that has a whole one; else the
// name stays.
void take_from_cache(RunSpec& spec);

// Throws ConfigError if a name has stayed.
void require_fetched(const RunSpec& spec);

}  // namespace fsdp
