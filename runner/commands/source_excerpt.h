#pragma once

#include <string>

namespace fsdp {

// What an error is about, for the user's eyes: a line of the file with a caret below the column.
//
//     7 |   kind: fdsp
//       |         ^
//
// `place` is file:line:column as ConfigError has it, columns counted in bytes. Empty when it is
// another place, or there is no such line to be read. A long line is cut around the column; tabs
// become spaces, and what a terminal would obey or is not UTF-8 is shown as visible_line does.
std::string source_excerpt(const std::string& place);

}  // namespace fsdp
