// Digests files. A file counts only if its state was equal before and after it was read.
#include "base/files/file_digest.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <system_error>

#include "base/files/digest.h"
#include "base/files/input_file.h"
#include "base/system/unix_time.h"

namespace fsdp {
namespace {

// This time exceeds a tick of any file system's clock (FAT: 2 s).
constexpr int64_t kSettledAfterMs = 2'500;

int64_t unix_ns(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

FileState state(const std::filesystem::path& file, const struct stat& status) {
  if (S_ISDIR(status.st_mode))
    refuse_unreadable(file, std::make_error_code(std::errc::is_a_directory));
  if (!S_ISREG(status.st_mode)) refuse_file(file, "cannot be read: it is not a regular file");
  std::error_code error;
  const std::filesystem::path canonical = std::filesystem::canonical(file, error);
  if (error) refuse_unreadable(file, error);
  return {.path = canonical.string(),
          // File systems without a device, such as NFS, get another number at each mount.
          .device = major(status.st_dev) == 0 ? 0 : static_cast<int64_t>(status.st_dev),
          .inode = static_cast<int64_t>(status.st_ino),
          .size_bytes = status.st_size,
          .modified_unix_ns = unix_ns(status.st_mtim),
          .changed_unix_ns = unix_ns(status.st_ctim),
          .link_count = static_cast<int64_t>(status.st_nlink)};
}

std::string digest_of(const InputFile& file) {
  Digest digest;
  const int error = digest.add_file(file.descriptor());
  if (error != 0) refuse_unreadable(file.path(), {error, std::generic_category()});
  return digest.text();
}

}  // namespace

FileState state_of(const std::filesystem::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) refuse_unreadable(file, {errno, std::generic_category()});
  return state(file, status);
}

FileState state_of(const std::filesystem::path& file, int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) refuse_unreadable(file, {errno, std::generic_category()});
  return state(file, status);
}

bool is_untouched(const FileState& before, FileState now) {
  // A hard link changes a file's count of links and its time of change, but not its bytes.
  if (now.link_count != before.link_count) {
    now.link_count = before.link_count;
    now.changed_unix_ns = before.changed_unix_ns;
  }
  return now == before;
}

HashedFile hash_file(const std::filesystem::path& file) {
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    const int64_t begun_unix_ms = now_unix_ms();
    const InputFile opened(file);
    HashedFile hashed;
    hashed.state = state_of(file, opened.descriptor());
    hashed.digest = digest_of(opened);
    if (state_of(file, opened.descriptor()) != hashed.state) continue;
    if (state_of(file) != hashed.state) continue;
    hashed.is_settled = hashed.state.changed_unix_ns / 1'000'000 + kSettledAfterMs < begun_unix_ms;
    return hashed;
  }
  refuse_file(file, "changed each time while it was read; run again when nothing writes to it");
}

std::string file_digest(const std::filesystem::path& file) { return hash_file(file).digest; }

}  // namespace fsdp
