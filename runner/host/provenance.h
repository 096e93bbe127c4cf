#pragma once

#include <map>
#include <string>
#include <string_view>

#include "runner/store/attempts.h"

namespace fsdp {

// Returns the runner, host and environment of this process. The caller fills in the rest.
Provenance provenance_of_this_process();

// The version of fsdp-run: "0.1.0".
std::string_view runner_version();

// Returns a JSON object of the variables that may change a run's result or speed, sorted by name.
// Variables with names of secrets are left out.
std::string environment_json(const std::map<std::string, std::string>& variables);

// Returns the variables in an attempt's record that environment_json writes and a shell accepts. A
// merged database may hold others. No command may tell a reader to set them.
std::map<std::string, std::string> recorded_variables(const Provenance& provenance);

}  // namespace fsdp
