#pragma once

#include <filesystem>
#include <functional>

namespace fsdp {

// The wait before a held file is tried again.
inline constexpr double kLockWaitS = 0.1;

// A file that one process or thread locks at a time, in the same way as Hugging Face's libraries.
class LockFile {
 public:
  // Creates the file and its folder if missing. Calls `wait` while another holds the lock; an
  // exception from it ends the waiting. Throws std::runtime_error if the file cannot be locked.
  LockFile(const std::filesystem::path& place, const std::function<void()>& wait);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  int descriptor_;
};

// Throws an error that the cache cannot be written at `place`, with a remedy. `error` is an errno.
[[noreturn]] void refuse_place(const std::filesystem::path& place, int error);

// Creates the folder. Throws like refuse_place().
void make_folder(const std::filesystem::path& folder);

}  // namespace fsdp
