#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

namespace fsdp {

// Locks an open file or folder (flock, LOCK_EX or LOCK_SH) until all copies of the descriptor are
// closed. Returns false if someone else holds the lock. Throws std::system_error, with `name`, if
// the file system has no locks.
inline bool try_to_lock(int descriptor, const std::string& name, int kind = LOCK_EX) {
  while (flock(descriptor, kind | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), name);
  }
  return true;
}

// A file that exists only to be locked. The lock ends with the object.
class LockFile {
 public:
  // Creates the file if it is missing. Throws std::system_error that names the file.
  explicit LockFile(const std::filesystem::path& file)
      : name_(file.string()),
        descriptor_(open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), name_);
  }
  ~LockFile() { close(descriptor_); }
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  bool try_to_lock() const { return fsdp::try_to_lock(descriptor_, name_); }

 private:
  std::string name_;
  int descriptor_;
};

}  // namespace fsdp
