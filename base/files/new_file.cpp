// Writes a file under another name, syncs and renames it. Readers never see a part of it.
#include "base/files/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <system_error>
#include <utility>

namespace fsdp {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

}  // namespace

int sync_names(const std::filesystem::path& folder) {
  const int descriptor =
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A folder may be writable but not readable.
  if (descriptor < 0) return errno == EACCES ? 0 : errno;
  // Some file systems refuse fsync() of a folder, because they keep names in order by themselves.
  const int error = fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  close(descriptor);
  return error;
}

void sync_file(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const bool is_synced = descriptor >= 0 && fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (is_synced) return;
  throw std::system_error(error, std::generic_category(), file.string() + " cannot be synced");
}

std::filesystem::path name_by_chance(const std::filesystem::path& place) {
  std::random_device source;
  const std::string number = std::to_string(source()) + std::to_string(source());
  return place.parent_path() / (".fsdp-run-" + number + ".new");
}

NewFile::NewFile(std::filesystem::path place, std::filesystem::path temporary)
    : place_(std::move(place)), temporary_(std::move(temporary)) {
  // Never writes through a link that stands there.
  if (unlink(temporary_.c_str()) != 0 && errno != ENOENT) fail(errno);
  descriptor_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(errno);
}

NewFile::~NewFile() {
  close(descriptor_);
  if (!is_published_) unlink(temporary_.c_str());
}

void NewFile::append(std::span<const std::byte> bytes) {
  buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (buffer_.size() >= kBufferBytes) flush();
}

void NewFile::overwrite(uint64_t offset, std::span<const std::byte> bytes) {
  flush();
  write(offset, bytes);
}

void NewFile::publish(OnDisk when) {
  flush();
  if (when == OnDisk::kNow && fsync(descriptor_) != 0) fail(errno);
  if (rename(temporary_.c_str(), place_.c_str()) != 0) fail(errno);
  is_published_ = true;
  if (when == OnDisk::kLater) return;
  if (const int error = sync_names(place_.parent_path()); error != 0) fail(error);
}

void NewFile::fail(int error) const {
  throw std::system_error(error, std::generic_category(), place_.string() + " cannot be written");
}

void NewFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(count < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

void NewFile::flush() {
  write(written_bytes_, std::as_bytes(std::span(buffer_)));
  written_bytes_ += buffer_.size();
  buffer_.clear();
}

}  // namespace fsdp
