#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/inputs/hub_inputs.h"
#include "runner/fetch/hub.h"

namespace fsdp {

// The files that `input` is made of, of its repository's commit. `read` returns the contents of
// one of them. Throws ConfigError when it lacks what is needed.
std::vector<ListedFile> wanted_files(const HubInput& input, const std::string& commit, Hub& hub,
                                     const std::function<std::string(const ListedFile&)>& read);

}  // namespace fsdp
