#include "runner/fetch/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace fsdp {

void refuse_place(const std::filesystem::path& place, int error) {
  const std::string text = "the cache cannot be written: " + place.string() + ": " +
                           std::generic_category().message(error);
  throw std::runtime_error(text +
                           (error == ENOSPC || error == EDQUOT
                                ? "; what has come so far is kept, so make room and fetch again"
                                : "; HF_HOME or HF_HUB_CACHE name another folder"));
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) refuse_place(folder, error.value());
}

LockFile::LockFile(const std::filesystem::path& place, const std::function<void()>& wait) {
  make_folder(place.parent_path());
  descriptor_ = open(place.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) refuse_place(place, errno);
  try {
    while (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) refuse_place(place, errno);
      wait();
    }
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

LockFile::~LockFile() { close(descriptor_); }

}  // namespace fsdp
