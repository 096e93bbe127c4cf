#include "contract/inputs/zip_archive.h"

#include <minizip/unzip.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "contract/files/input_file.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// The archive's bytes, in the form of the stream that minizip reads.
struct ByteStream {
  std::span<const std::byte> bytes;
  uint64_t position = 0;
};

ByteStream& stream_of(void* stream) { return *static_cast<ByteStream*>(stream); }

void* open_stream(void* opaque, const void*, int) { return opaque; }

uLong read_stream(void*, void* stream, void* out, uLong size) {
  ByteStream& from = stream_of(stream);
  const uint64_t count = std::min<uint64_t>(size, from.bytes.size() - from.position);
  std::memcpy(out, from.bytes.data() + from.position, count);
  from.position += count;
  return count;
}

ZPOS64_T tell_stream(void*, void* stream) { return stream_of(stream).position; }

long seek_stream(void*, void* stream, ZPOS64_T offset, int origin) {
  ByteStream& of = stream_of(stream);
  const uint64_t size = of.bytes.size();
  const uint64_t begin = origin == SEEK_SET ? 0 : origin == SEEK_CUR ? of.position : size;
  if (offset > size - begin) return -1;
  of.position = begin + offset;
  return 0;
}

int close_stream(void*, void*) { return 0; }
int error_of_stream(void*, void*) { return 0; }

struct CloseArchive {
  void operator()(void* archive) const { unzClose(archive); }
};
using Archive = std::unique_ptr<void, CloseArchive>;

Archive open_archive(ByteStream& stream) {
  zlib_filefunc64_def functions{.zopen64_file = open_stream,
                                .zread_file = read_stream,
                                .zwrite_file = nullptr,
                                .ztell64_file = tell_stream,
                                .zseek64_file = seek_stream,
                                .zclose_file = close_stream,
                                .zerror_file = error_of_stream,
                                .opaque = &stream};
  return Archive(unzOpen2_64("", &functions));
}

// Where the bytes of the archive's current member begin; nullopt when that is damaged.
std::optional<uint64_t> begin_of_current(unzFile archive) {
  int method = 0;
  int level = 0;
  if (unzOpenCurrentFile2(archive, &method, &level, /*raw=*/1) != UNZ_OK) return std::nullopt;
  const uint64_t begin = unzGetCurrentFileZStreamPos64(archive);
  unzCloseCurrentFile(archive);
  return begin;
}

}  // namespace

std::map<std::string, ZipMember> read_zip(const path& file, std::span<const std::byte> bytes) {
  ByteStream stream{.bytes = bytes};
  const Archive archive = open_archive(stream);
  if (archive == nullptr) {
    refuse_file(file, "is no zip archive, or is cut short: copy or download it again");
  }
  std::map<std::string, ZipMember> members;
  int status = unzGoToFirstFile(archive.get());
  for (; status == UNZ_OK; status = unzGoToNextFile(archive.get())) {
    constexpr size_t kLongestName = 1000;
    unz_file_info64 about;
    char name[kLongestName + 1] = {};
    if (unzGetCurrentFileInfo64(archive.get(), &about, name, kLongestName, nullptr, 0, nullptr,
                                0) != UNZ_OK ||
        about.size_filename > kLongestName) {
      break;
    }
    const auto refuse = [&](const std::string& problem) {
      refuse_file(file, "member '" + std::string(name) + "' " + problem);
    };
    constexpr uLong kEncrypted = 1;
    if ((about.flag & kEncrypted) != 0) refuse("is encrypted");
    if (about.compression_method != 0 || about.compressed_size != about.uncompressed_size) {
      refuse("is compressed; torch.save stores bytes as they are");
    }
    const std::optional<uint64_t> begin = begin_of_current(archive.get());
    if (!begin || *begin > bytes.size() || about.compressed_size > bytes.size() - *begin) {
      refuse("is not where the archive says; the file is damaged or cut short");
    }
    const ZipMember member{.bytes = bytes.subspan(*begin, about.compressed_size),
                           .crc32 = static_cast<uint32_t>(about.crc)};
    if (!members.emplace(name, member).second) refuse("is there twice; the file is damaged");
  }
  if (status != UNZ_END_OF_LIST_OF_FILE) {
    refuse_file(file, "is a zip archive whose list of members is damaged");
  }
  return members;
}

bool is_undamaged(const ZipMember& member) {
  const auto* bytes = reinterpret_cast<const Bytef*>(member.bytes.data());
  return crc32_z(0, bytes, member.bytes.size()) == member.crc32;
}

}  // namespace fsdp
