#pragma once

#include <filesystem>
#include <functional>

namespace fsdp {

// How long to wait before a file that another holds is tried again.
inline constexpr double kLockWaitS = 0.1;

// A file that one process, or thread, holds at a time, as Hugging Face's libraries hold theirs.
class LockFile {
 public:
  // Makes the file and its folder where they are not there. Calls `wait` while another holds it;
  // what that throws ends the waiting. Throws std::runtime_error when it cannot be held.
  LockFile(const std::filesystem::path& place, const std::function<void()>& wait);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  int descriptor_;
};

// Says that the cache cannot be written at `place`, and what helps; `error` is an errno.
[[noreturn]] void refuse_place(const std::filesystem::path& place, int error);

// Throws as refuse_place does.
void make_folder(const std::filesystem::path& folder);

}  // namespace fsdp
