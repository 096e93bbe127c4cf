#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "contract/files/input_file.h"

namespace fsdp {

// What a zip archive holds, uncompressed: where its bytes are in the archive.
struct ZipMember {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  uint32_t crc32 = 0;  // as the archive says; nothing has been compared with it
};

// The members of an archive (zip64 included) by name. Throws ConfigError (place: the file) when it
// is no zip archive, is cut short or damaged, or a member is compressed or encrypted.
std::map<std::string, ZipMember> read_zip(const InputFile& archive);

// The bytes of a member; nullopt when they are not those that were written.
std::optional<std::string> read_undamaged(const InputFile& archive, const ZipMember& member);

}  // namespace fsdp
