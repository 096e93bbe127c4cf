#pragma once

#include <map>
#include <string>
#include <string_view>

namespace fsdp {

// The environment of this process, by name.
std::map<std::string, std::string> own_environment();

}  // namespace fsdp
