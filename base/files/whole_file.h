#pragma once

#include <filesystem>
#include <string_view>

#include "base/files/new_file.h"

namespace fsdp {

// There are two ways to write whole files.
//
// replace_file() writes a file of the results. Readers see the old text or all of `text`. A regular
// file keeps its mode and, if that is allowed, its owner. A link is replaced and its target is not
// touched, because another user can know the name and put a link there. Throws std::system_error if
// the file cannot be written. Then the old file stays, and nothing else is left.
void replace_file(const std::filesystem::path& place, std::string_view text,
                  OnDisk when = OnDisk::kNow);

// Writes a file that the user named, according to the kind of `path`:
//
//   Nothing, or a regular file   Readers see the old text or all of `text`. The file keeps its mode
//                                and, if that is allowed, its owner. A link to a file stays; the
//                                file behind the link is replaced.
//   Anything else                (a pipe, a device, /dev/stdout) The text is written into it.
//
// Throws std::system_error if the file cannot be written. Then a regular file stays as it was, and
// nothing else is left. Throws ConfigError if the file is a database of SQLite.
void write_whole_file(const std::filesystem::path& path, std::string_view text);

}  // namespace fsdp
