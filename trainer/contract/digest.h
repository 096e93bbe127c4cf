#pragma once

#include <filesystem>
#include <string>
#include <string_view>

// Digests of contents: XXH3 of 128 bits in hexadecimal, which differ where contents do.
namespace fsdp {

std::string text_digest(std::string_view text);

// Of a file's contents. Throws ConfigError when it cannot be read.
std::string file_digest(const std::filesystem::path& file);

}  // namespace fsdp
