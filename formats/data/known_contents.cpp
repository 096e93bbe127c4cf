#include "formats/data/known_contents.h"

#include <span>
#include <string>

#include "base/files/input_file.h"

namespace fsdp {
namespace {

using namespace std::string_view_literals;

struct KnownContents {
  std::string_view begin;
  std::string_view what;
  std::string_view command;
};

constexpr KnownContents kPacked[] = {
    {"\x1f\x8b\x08"sv, "compressed by gzip", "gunzip --keep FILE"},
    {"\x28\xb5\x2f\xfd"sv, "compressed by Zstandard", "zstd --decompress FILE"},
    {"\xfd\x37zXZ\0"sv, "compressed by xz", "unxz --keep FILE"},
    {"\x04\x22\x4d\x18"sv, "compressed by LZ4", "lz4 -d FILE"},
    {"PK\x03\x04"sv, "a zip archive", "unzip FILE"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "7z x FILE"},
};

constexpr KnownContents kEncodings[] = {
    {"\xff\xfe\0\0"sv, "text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE > OTHER"},
    {"\xff\xfe"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > OTHER"},
    {"\xfe\xff"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > OTHER"},
};

[[noreturn]] void refuse_as(const std::filesystem::path& path, std::string_view what,
                            std::string_view command) {
  refuse_file(path, "is " + std::string(what) + "; `" + std::string(command) +
                        "` makes it a file that can be read");
}

void refuse_known(const std::filesystem::path& path, std::string_view begin,
                  std::span<const KnownContents> all) {
  for (const KnownContents& known : all) {
    if (begin.starts_with(known.begin)) refuse_as(path, known.what, known.command);
  }
}

}  // namespace

void refuse_packed(const std::filesystem::path& path, std::string_view begin) {
  refuse_known(path, begin, kPacked);
  // The byte between the two is the compression level.
  if (begin.starts_with("BZh") && begin.substr(4).starts_with("1AY&")) {
    refuse_as(path, "compressed by bzip2", "bunzip2 --keep FILE");
  }
}

void refuse_other_encoding(const std::filesystem::path& path, std::string_view begin) {
  refuse_known(path, begin, kEncodings);
  // UTF-16 without a byte order mark: every second byte of Latin letters is 0.
  if (begin.size() < 4) return;
  const bool is_little = begin[0] != 0 && begin[1] == 0 && begin[2] != 0 && begin[3] == 0;
  const bool is_big = begin[0] == 0 && begin[1] != 0 && begin[2] == 0 && begin[3] != 0;
  if (!is_little && !is_big) return;
  refuse_as(path, "text in UTF-16",
            is_little ? "iconv -f UTF-16LE -t UTF-8 FILE > OTHER"
                      : "iconv -f UTF-16BE -t UTF-8 FILE > OTHER");
}

}  // namespace fsdp
