#pragma once

#include <filesystem>
#include <string_view>

namespace fsdp {

inline constexpr size_t kKnownContentsBytes = 8;

// Throws ConfigError (place: the file) if the file is compressed or an archive. `begin` is the
// first kKnownContentsBytes of `path`. Names the command that unpacks it.
void refuse_packed(const std::filesystem::path& path, std::string_view begin);

// The same for text in UTF-16 or UTF-32 instead of UTF-8.
void refuse_other_encoding(const std::filesystem::path& path, std::string_view begin);

}  // namespace fsdp
