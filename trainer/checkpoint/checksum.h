#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/contract/digest.h"

// Checksums of a checkpoint's files.
namespace fsdp {

// Adds the bytes of an open file, from `offset` on. Returns 0, or the errno of a read that failed.
int add_rest_of_file(Digest& digest, int descriptor, int64_t offset);

// Throws ConfigError when the file cannot be read.
std::string checksum_of_file(const std::filesystem::path& file);

}  // namespace fsdp
