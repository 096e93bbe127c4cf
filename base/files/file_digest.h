#pragma once

#include <filesystem>
#include <string>

#include "base/files/file_state.h"

// Digests of files that others may write to.
namespace fsdp {

// A file's digest, and the file's state, which was the same before and after reading.
struct HashedFile {
  FileState state;
  std::string digest;
  // True if the file had not changed for so long that a later change shows in its state. Only then
  // may the digest be remembered.
  bool is_settled = false;
};

// Reads the file again if it changed meanwhile. Throws ConfigError (place: the file) if it cannot
// be read or changes each time.
HashedFile hash_file(const std::filesystem::path& file);
std::string file_digest(const std::filesystem::path& file);

}  // namespace fsdp
