#include "base/files/file_state.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <system_error>

#include "base/files/input_file.h"

namespace fsdp {
namespace {

int64_t unix_ns(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

[[noreturn]] void refuse(const std::filesystem::path& file, const std::error_code& error) {
  refuse_unreadable(file, error);
}

FileState state(const std::filesystem::path& file, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) refuse(file, std::make_error_code(std::errc::is_a_directory));
  if (!S_ISREG(status.st_mode)) refuse_file(file, "cannot be read: it is not a regular file");
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(file, error);
  if (error) refuse(file, error);
  return {.path = canonical.string(),
          .device = major(status.st_dev) == 0 ? 0 : static_cast<int64_t>(status.st_dev),
          .inode = static_cast<int64_t>(status.st_ino),
          .size_bytes = status.st_size,
          .modified_unix_ns = unix_ns(status.st_mtim),
          .changed_unix_ns = unix_ns(status.st_ctim),
          .link_count = static_cast<int64_t>(status.st_nlink)};
}

}  // namespace

FileState state_of(const std::filesystem::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) refuse(file, {errno, std::generic_category()});
  return state(file, status);
}

FileState state_of(const std::filesystem::path& file, int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) refuse(file, {errno, std::generic_category()});
  return state(file, status);
}

bool is_untouched(const FileState& before, FileState now) {
  if (now.link_count != before.link_count) {
    now.link_count = before.link_count;
    now.changed_unix_ns = before.changed_unix_ns;
  }
  return now == before;
}

}  // namespace fsdp
