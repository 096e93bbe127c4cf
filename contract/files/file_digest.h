#pragma once

#include <filesystem>
#include <string>

#include "contract/files/file_state.h"

// Digests of files that others may write to.
namespace fsdp {

// A file's digest, and what the file was before, while and after its bytes were read.
struct HashedFile {
  FileState state;
  std::string digest;
  // Whether the file had been left alone for so long that a later change shows in its state: only
  // then may the digest be remembered.
  bool is_settled = false;
};

// Reads the file again when it changed meanwhile. Throws ConfigError (place: the file) when it
// cannot be read, or changes each time.
HashedFile hash_file(const std::filesystem::path& file);
std::string file_digest(const std::filesystem::path& file);

}  // namespace fsdp
