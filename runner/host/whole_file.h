#pragma once

#include <filesystem>
#include <string_view>

namespace fsdp {

// The two ways in which whole files are written.
//
// A file of the results, whose name others can know: whoever reads it sees what was there before or
// all of `text`. A regular file keeps its mode and, where that is allowed, its owner. A link is
// replaced, and what it leads to is not touched. Throws std::system_error, and leaves what was
// there and nothing else, when that cannot be done.
void replace_file(const std::filesystem::path& place, std::string_view text);

// A file that the user named. What `path` is decides how:
//
//   nothing, or a regular file   whoever reads it sees what was there before or all of `text`; the
//                                file keeps its mode and, where that is allowed, its owner; a link
//                                to a file stays, and the file that it means is replaced
//   anything else                (a pipe, a device, /dev/stdout) is written to as it is
//
// Throws std::system_error, and leaves what was there and nothing else, when that cannot be done;
// std::runtime_error when the file is a database of SQLite, which is not replaced.
void write_whole_file(const std::filesystem::path& path, std::string_view text);

}  // namespace fsdp
