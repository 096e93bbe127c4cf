#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace fsdp {

// A name beside `place` that nothing has, and that nobody can know before.
std::filesystem::path name_by_chance(const std::filesystem::path& place);

// A file that is written under another name beside its place, and takes its place when it is whole
// and on the disk. A link that stands under either name is removed; what it leads to is never
// written to. Every function throws std::system_error that names the place.
class NewFile {
 public:
  // Creates `temporary`, in the place of what stands there. One process at a time uses that name.
  NewFile(std::filesystem::path place, std::filesystem::path temporary);
  // Removes it unless it took its place.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void append(std::span<const std::byte> bytes);
  // Writes over what was appended.
  void overwrite(uint64_t offset, std::span<const std::byte> bytes);
  // At most this many of the bytes from `offset` on; fewer at the end.
  size_t read(uint64_t offset, std::span<std::byte> out);
  // Afterwards it is in its place, and both are on the disk.
  void publish();
  int descriptor() const { return descriptor_; }

 private:
  [[noreturn]] void fail(int error) const;
  void write(uint64_t offset, std::span<const std::byte> bytes);
  void flush();

  std::filesystem::path place_;
  std::filesystem::path temporary_;
  int descriptor_;
  std::string buffer_;  // appended, and not yet written
  uint64_t written_bytes_ = 0;
  bool is_published_ = false;
};

}  // namespace fsdp
