#include "contract/inputs/zip_archive.h"

#include <zlib.h>

#include <span>
#include <string_view>

// The names and offsets of records follow PKWARE's APPNOTE.TXT, 4.3.
namespace fsdp {
namespace {

constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kLocatorBytes = 20;
constexpr uint64_t kHeaderBytes = 46;  // of a member in the directory, before its name
constexpr uint64_t kLocalHeaderBytes = 30;
constexpr uint64_t kExtraHeaderBytes = 4;

struct Directory {
  uint64_t count = 0;
  uint64_t offset = 0;
};

// A member's record in the directory.
struct Entry {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc32 = 0;
  uint64_t stored_bytes = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // of its local header
};

class ZipReader {
 public:
  explicit ZipReader(const InputFile& archive) : archive_(archive) {}

  Directory find_directory() const;
  // Reads the record at `position`, and moves `position` to the next one.
  Entry read_entry(uint64_t& position) const;
  ZipMember member_of(const Entry& entry) const;

 private:
  [[noreturn]] void refuse_damaged() const {
    refuse_file(archive_.path(), "is a zip archive whose list of members is damaged");
  }

  bool has(uint64_t offset, uint64_t count) const {
    const uint64_t size = archive_.size_bytes();
    return offset <= size && count <= size - offset;
  }
  template <typename T>
  T read(uint64_t offset) const {
    if (!has(offset, sizeof(T))) refuse_damaged();
    T value;
    archive_.read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  std::string read_text(uint64_t offset, uint64_t count) const {
    std::string text(count, '\0');
    archive_.read(offset, std::as_writable_bytes(std::span(text)));
    return text;
  }
  bool is_at(uint64_t offset, std::string_view signature) const {
    return has(offset, signature.size()) && read_text(offset, signature.size()) == signature;
  }
  // Reads the sizes and the offset that need more than 32 bits.
  void read_zip64(uint64_t extra, uint64_t end, Entry& entry) const;

  const InputFile& archive_;
};

Directory ZipReader::find_directory() const {
  constexpr uint64_t kLongestComment = 65'535;
  for (uint64_t comment = 0; comment <= kLongestComment; ++comment) {
    if (archive_.size_bytes() < kEndBytes + comment) break;
    const uint64_t end = archive_.size_bytes() - kEndBytes - comment;
    if (!is_at(end, "PK\x05\x06") || read<uint16_t>(end + 20) != comment) continue;
    if (end < kLocatorBytes || !is_at(end - kLocatorBytes, "PK\x06\x07")) {
      return {.count = read<uint16_t>(end + 10), .offset = read<uint32_t>(end + 16)};
    }
    const auto end64 = read<uint64_t>(end - kLocatorBytes + 8);
    if (!is_at(end64, "PK\x06\x06")) refuse_damaged();
    return {.count = read<uint64_t>(end64 + 32), .offset = read<uint64_t>(end64 + 48)};
  }
  refuse_file(archive_.path(), "is no zip archive, or is cut short: copy or download it again");
}

Entry ZipReader::read_entry(uint64_t& position) const {
  if (!is_at(position, "PK\x01\x02") || !has(position, kHeaderBytes)) refuse_damaged();
  const uint64_t name = position + kHeaderBytes;
  const uint64_t extra = name + read<uint16_t>(position + 28);
  const uint64_t comment = extra + read<uint16_t>(position + 30);
  const uint64_t next = comment + read<uint16_t>(position + 32);
  if (!has(position, next - position)) refuse_damaged();
  Entry entry;
  entry.name = read_text(name, extra - name);
  entry.flags = read<uint16_t>(position + 8);
  entry.method = read<uint16_t>(position + 10);
  entry.crc32 = read<uint32_t>(position + 16);
  entry.stored_bytes = read<uint32_t>(position + 20);
  entry.bytes = read<uint32_t>(position + 24);
  entry.offset = read<uint32_t>(position + 42);
  read_zip64(extra, comment, entry);
  position = next;
  return entry;
}

void ZipReader::read_zip64(uint64_t extra, uint64_t end, Entry& entry) const {
  constexpr uint16_t kZip64 = 1;
  while (end - extra >= kExtraHeaderBytes) {
    uint64_t field = extra + kExtraHeaderBytes;
    const uint64_t field_end = field + read<uint16_t>(extra + 2);
    if (field_end > end) refuse_damaged();
    if (read<uint16_t>(extra) == kZip64) {
      for (uint64_t* const value : {&entry.bytes, &entry.stored_bytes, &entry.offset}) {
        if (*value != 0xffff'ffff) continue;
        if (field_end - field < sizeof(uint64_t)) refuse_damaged();
        *value = read<uint64_t>(field);
        field += sizeof(uint64_t);
      }
    }
    extra = field_end;
  }
}

ZipMember ZipReader::member_of(const Entry& entry) const {
  const auto refuse = [&](const std::string& problem) {
    refuse_file(archive_.path(), "member '" + entry.name + "' " + problem);
  };
  constexpr uint16_t kEncrypted = 1;
  if ((entry.flags & kEncrypted) != 0) refuse("is encrypted");
  if (entry.method != 0 || entry.stored_bytes != entry.bytes) {
    refuse("is compressed; torch.save stores bytes as they are");
  }
  const std::string misplaced = "is not where the archive says; the file is damaged or cut short";
  if (!is_at(entry.offset, "PK\x03\x04") || !has(entry.offset, kLocalHeaderBytes)) {
    refuse(misplaced);
  }
  const uint64_t begin = entry.offset + kLocalHeaderBytes + read<uint16_t>(entry.offset + 26) +
                         read<uint16_t>(entry.offset + 28);
  if (!has(begin, entry.bytes)) refuse(misplaced);
  return {.offset = begin, .size_bytes = entry.bytes, .crc32 = entry.crc32};
}

}  // namespace

std::map<std::string, ZipMember> read_zip(const InputFile& archive) {
  const ZipReader reader(archive);
  const Directory directory = reader.find_directory();
  std::map<std::string, ZipMember> members;
  uint64_t position = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    const Entry entry = reader.read_entry(position);
    if (!members.emplace(entry.name, reader.member_of(entry)).second) {
      refuse_file(archive.path(),
                  "member '" + entry.name + "' is there twice; the file is damaged");
    }
  }
  return members;
}

std::optional<std::string> read_undamaged(const InputFile& archive, const ZipMember& member) {
  std::string bytes(member.size_bytes, '\0');
  archive.read(member.offset, std::as_writable_bytes(std::span(bytes)));
  const auto* begin = reinterpret_cast<const Bytef*>(bytes.data());
  if (crc32_z(0, begin, bytes.size()) != member.crc32) return std::nullopt;
  return bytes;
}

}  // namespace fsdp
