#pragma once

#include <filesystem>
#include <string>

namespace fsdp {

// Returns the checksum of a checkpoint's file. Reading it is a part of the start-up. Throws
// ConfigError if the file cannot be read.
std::string checksum_of_file(const std::filesystem::path& file);

}  // namespace fsdp
