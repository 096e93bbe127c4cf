#pragma once

#include <functional>
#include <string>
#include <vector>

#include "contract/files/hub_listing.h"
#include "contract/inputs/hub_inputs.h"

namespace fsdp {

// What is known of a repository's commit: by a fetch from the hub, by a run from the cache.
struct HubFiles {
  // The files in a folder, empty: the repository's own; with those in folders below it if
  // `is_recursive`. A folder that is not there has none.
  std::function<std::vector<ListedFile>(const std::string& folder, bool is_recursive)> list;
  // The contents of a file.
  std::function<std::string(const ListedFile& file)> read;
};

// The files that `input` is made of. A fetch brings them, and a run takes the input only if all of
// them are there. Throws ConfigError if the repository lacks what is needed.
std::vector<ListedFile> wanted_files(const HubInput& input, const HubFiles& files);

}  // namespace fsdp
