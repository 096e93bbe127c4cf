#pragma once

#include <filesystem>
#include <string_view>

namespace fsdp {

inline constexpr size_t kKnownContentsBytes = 8;

// Throws ConfigError (place: the file) if `begin`, the first kKnownContentsBytes of `path`, are of
// a file that is compressed, or an archive. Names the command that unpacks it.
void refuse_packed(const std::filesystem::path& path, std::string_view begin);

// The same of text that is not UTF-8, but UTF-16 or UTF-32.
void refuse_other_encoding(const std::filesystem::path& path, std::string_view begin);

}  // namespace fsdp
