#pragma once

#include <filesystem>
#include <string>

namespace fsdp {

// Returns the checksum of a checkpoint's file. If the rank is starting, the reading is a part of
// its start-up (see start_up.h). Throws ConfigError if the file cannot be read.
std::string checksum_of_file(const std::filesystem::path& file);

}  // namespace fsdp
