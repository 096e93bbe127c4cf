#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace fsdp {

// What a zip archive holds, uncompressed, within the archive's own bytes.
struct ZipMember {
  std::span<const std::byte> bytes;
  uint32_t crc32 = 0;  // as the archive says; nothing has been compared with it
};

// The members of an archive (zip64 included) by name; nothing is copied. `bytes`, the archive, are
// the caller's. Throws ConfigError (place: `file`) when it is no zip archive, is cut short or
// damaged, or a member is compressed or encrypted.
std::map<std::string, ZipMember> read_zip(const std::filesystem::path& file,
                                          std::span<const std::byte> bytes);

// Whether the member's bytes are those that were written. Reads them.
bool is_undamaged(const ZipMember& member);

}  // namespace fsdp
