#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/files/input_file.h"

namespace fsdp {

// An uncompressed member's place in the archive.
struct ZipMember {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  uint32_t crc32 = 0;  // as the archive says; nothing has been compared with it
};

// The members of an archive (zip64 included) by name. Throws ConfigError (place: the file) if it is
// not a zip archive, is cut short or damaged, or has a compressed or encrypted member.
std::map<std::string, ZipMember> read_zip(const InputFile& archive);

// The bytes of a member; nullopt if their CRC is wrong.
std::optional<std::string> read_undamaged(const InputFile& archive, const ZipMember& member);

}  // namespace fsdp
