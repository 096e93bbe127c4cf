#pragma once

#include <map>
#include <string>
#include <string_view>

#include "runner/store/attempts.h"

namespace fsdp {

// What this process can tell of where its runs come from: the runner, this host and its
// environment. The rest is the caller's to fill in.
Provenance provenance_of_this_process();

// Of fsdp-run: "0.1.0".
std::string_view runner_version();

// The variables that may change what a run does or how fast, as a JSON object in the order of their
// names; never one whose name tells that it is a secret.
std::string environment_json(const std::map<std::string, std::string>& variables);

// The variables that an attempt's record holds, of those that environment_json writes and a shell
// takes. A merged database may hold others, which no command may tell a reader to set.
std::map<std::string, std::string> recorded_variables(const Provenance& provenance);

}  // namespace fsdp
