// Writes a checkpoint's files and syncs them. Sums checksums while bytes come in order.
#include "trainer/checkpoint/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/files/disk_full.h"

namespace fsdp {
namespace {

const char* remedy(int error) {
  if (is_disk_full(error)) {
    return "free space there, keep fewer checkpoints (checkpoint.keep), or choose another results "
           "folder";
  }
  switch (error) {
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "allow this user to write there, or choose another results folder";
    default:
      return "check the disk and its file system, or choose another results folder";
  }
}

}  // namespace

void fail_to_write(const std::filesystem::path& path, int error) {
  throw std::system_error(error, std::generic_category(),
                          path.string() +
                              ": the checkpoint cannot be written; earlier checkpoints are as "
                              "they were; " +
                              remedy(error));
}

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail_to_write(path_, errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void OutputFile::write(int64_t offset, std::span<const std::byte> bytes) {
  if (offset == summed_bytes_ && !is_written_beyond_) {
    digest_.add(bytes);
    summed_bytes_ += std::ssize(bytes);
  } else {
    is_written_beyond_ = true;
  }
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_to_write(path_, written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
}

std::string OutputFile::finish() {
  // Bytes that came out of order are read back.
  if (is_written_beyond_) {
    const int error = digest_.add_file(descriptor_, summed_bytes_);
    if (error != 0) fail_to_write(path_, error);
  }
  if (fsync(descriptor_) != 0) fail_to_write(path_, errno);
  if (close(std::exchange(descriptor_, -1)) != 0) fail_to_write(path_, errno);
  return digest_.text();
}

std::string write_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(0, std::as_bytes(std::span(text)));
  return file.finish();
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_to_write(folder, errno);
  // Some file systems need no fsync() for folders, and refuse it with EINVAL.
  const int error = fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  close(descriptor);
  if (error != 0) fail_to_write(folder, error);
}

}  // namespace fsdp
