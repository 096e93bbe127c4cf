#pragma once

#include <string>

namespace fsdp {

// Shows the place of an error to the user: a line of the file with a caret below the column.
//
//     7 |   kind: fdsp
//       |         ^
//
// `place` is file:line:column as in ConfigError; columns are counted in bytes. Returns "" if
// `place` has another form, or the line cannot be read. A long line is cut around the column. Tabs
// become spaces. Control characters and invalid UTF-8 are shown as in visible_line.
std::string source_excerpt(const std::string& place);

}  // namespace fsdp
