#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/files/digest.h"

// Writes files and waits until they are on the disk.
namespace fsdp {

// Checksums of files, by their names.
using Checksums = std::map<std::string, std::string>;

// A new file, which may be written in any order. Every function throws std::runtime_error that
// names the file, the cause and the remedy.
class OutputFile {
 public:
  // Creates the file. No file or link of that name may exist.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(int64_t offset, std::span<const std::byte> bytes);
  // Waits until everything is on the disk, and closes the file. Returns its checksum. For the
  // checksum, it reads again the part of the file that was not written in order.
  std::string finish();

 private:
  std::filesystem::path path_;
  int descriptor_;
  Digest digest_;
  int64_t summed_bytes_ = 0;        // at the file's beginning, which digest_ covers
  bool is_written_beyond_ = false;  // true after a write that was out of order
};

// Writes a new file with this text, and waits until it is on the disk. Returns its checksum.
std::string write_file(const std::filesystem::path& path, std::string_view text);

// Waits until the names of the folder's entries are on the disk.
void sync_folder(const std::filesystem::path& folder);

// Throws std::system_error: `path` could not be written because of `error` (an errno).
[[noreturn]] void fail_to_write(const std::filesystem::path& path, int error);

}  // namespace fsdp
