#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "contract/record/digest.h"

// Writing files so that they are on the disk, or an error says why not.
namespace fsdp {

// Checksums of files, by their names.
using Checksums = std::map<std::string, std::string>;

// A new file, written at any places in any order. Every function throws std::runtime_error that
// names the file, the cause and what to do.
class OutputFile {
 public:
  // Creates it; a file or link of that name must not exist.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(int64_t offset, std::span<const std::byte> bytes);
  // Waits until the disk has everything, and closes the file. Returns its bytes' checksum, which is
  // taken of what is written in order as it is written, and of the rest by reading it again.
  std::string finish();

 private:
  std::filesystem::path path_;
  int descriptor_;
  Digest digest_;
  int64_t summed_bytes_ = 0;        // of the file's begin, that digest_ holds
  bool is_written_beyond_ = false;  // more, at other places
};

// A new file with these contents, on the disk. Returns their checksum.
std::string write_file(const std::filesystem::path& path, std::string_view text);

// Waits until the disk has the folder's names.
void sync_folder(const std::filesystem::path& folder);

// Throws std::system_error: `path` could not be written because of `error` (an errno).
[[noreturn]] void fail_to_write(const std::filesystem::path& path, int error);

}  // namespace fsdp
