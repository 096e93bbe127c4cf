#pragma once

#include <map>
#include <string>
#include <string_view>

namespace fsdp {

// Returns `word` as one word of a POSIX shell command. It may hold any byte except zero. A word
// without special characters stays as it is; others get single quotes.
std::string shell_quoted(std::string_view word);

// The environment of this process, by name.
std::map<std::string, std::string> own_environment();

}  // namespace fsdp
