#pragma once

#include <string>
#include <vector>

namespace fsdp {

// "a, b, c"; of more than eight the first seven "and 12 more".
std::string joined_names(const std::vector<std::string>& names);

}  // namespace fsdp
