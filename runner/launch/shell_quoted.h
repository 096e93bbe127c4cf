#pragma once

#include <string>
#include <string_view>

namespace fsdp {

// Returns `word` as one word of a POSIX shell command. It may hold any byte except zero. A word
// without special characters stays as it is; others get single quotes.
std::string shell_quoted(std::string_view word);

}  // namespace fsdp
