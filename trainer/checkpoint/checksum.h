#pragma once

#include <filesystem>
#include <string>

namespace fsdp {

// Of a checkpoint's file, and reading it is a part of the start. Throws ConfigError when it cannot
// be read.
std::string checksum_of_file(const std::filesystem::path& file);

}  // namespace fsdp
