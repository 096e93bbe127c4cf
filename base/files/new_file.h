#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace fsdp {

// Returns a random path beside `place`, which nobody can predict.
std::filesystem::path name_by_chance(const std::filesystem::path& place);

// Waits until the folder's names are on the disk. Returns 0, or an errno.
[[nodiscard]] int sync_names(const std::filesystem::path& folder);

// When a file's bytes and name must be on the disk. With kLater, a power failure can lose them.
enum class OnDisk { kNow, kLater };

// Waits until the file's bytes are on the disk. Throws std::system_error.
void sync_file(const std::filesystem::path& file);

// A file that is written under another name beside its place, and moved to its place when it is
// complete. A link under either name is removed, and its target is never written to. Every function
// throws std::system_error that names the place.
class NewFile {
 public:
  // Creates `temporary`, and removes an older file of this name. Only one process at a time may use
  // the name.
  NewFile(std::filesystem::path place, std::filesystem::path temporary);
  // Removes the file unless publish() moved it.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void append(std::span<const std::byte> bytes);
  // Overwrites bytes that were appended.
  void overwrite(uint64_t offset, std::span<const std::byte> bytes);
  // Moves the file to its place. With kNow, waits until both are on the disk.
  void publish(OnDisk when = OnDisk::kNow);
  int descriptor() const { return descriptor_; }

 private:
  [[noreturn]] void fail(int error) const;
  void write(uint64_t offset, std::span<const std::byte> bytes);
  void flush();

  std::filesystem::path place_;
  std::filesystem::path temporary_;
  int descriptor_;
  std::string buffer_;  // appended, but not yet written
  uint64_t written_bytes_ = 0;
  bool is_published_ = false;
};

}  // namespace fsdp
