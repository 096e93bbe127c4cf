#pragma once

#include <string>
#include <vector>

namespace fsdp {

// "a, b, c"; of more than eight the first seven "and 12 more".
std::string joined_names(const std::vector<std::string>& names);

// A heading without its line breaks.
std::string in_one_line(std::string heading);

}  // namespace fsdp
