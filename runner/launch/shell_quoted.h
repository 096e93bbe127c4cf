#pragma once

#include <string>
#include <string_view>

namespace fsdp {

// `word` as one word of a POSIX shell's command, whatever is in it but a zero byte: as it is where
// nothing in it means something to the shell, else between single quotes.
std::string shell_quoted(std::string_view word);

}  // namespace fsdp
