#pragma once

#include <filesystem>
#include <string_view>

namespace fsdp {

// Whoever reads `path` sees what was there before or all of `text`, never a part. Throws
// std::system_error, and leaves what was there, when that cannot be done.
void write_whole_file(const std::filesystem::path& path, std::string_view text);

}  // namespace fsdp
