#include "runner/export/output_file.h"

#include <cerrno>
#include <system_error>

namespace fsdp {

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)), stream_(path_, std::ios::binary) {
  if (!stream_) fail();
}

void OutputFile::write(std::string_view bytes) {
  if (!stream_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) fail();
}

void OutputFile::close() {
  stream_.close();
  if (!stream_) fail();
}

void OutputFile::fail() const {
  throw std::system_error(
      errno, std::generic_category(),
      path_.string() + " cannot be written; free its place or name another folder");
}

}  // namespace fsdp
