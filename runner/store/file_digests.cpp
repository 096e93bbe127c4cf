#include <sys/stat.h>

#include <system_error>

#include "runner/store/store_contents.h"

namespace fsdp {
namespace {

struct FileState {
  std::string path;
  int64_t device = 0;
  int64_t inode = 0;
  int64_t size_bytes = 0;
  int64_t modified_unix_ns = 0;
  int64_t changed_unix_ns = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("path", self.path);
    visit("device", self.device);
    visit("inode", self.inode);
    visit("size_bytes", self.size_bytes);
    visit("modified_unix_ns", self.modified_unix_ns);
    visit("changed_unix_ns", self.changed_unix_ns);
  }
};

int64_t unix_ns(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

FileState state_of(const std::filesystem::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) {
    throw std::system_error(errno, std::generic_category(), file.string());
  }
  return {.path = std::filesystem::canonical(file).string(),
          .device = static_cast<int64_t>(status.st_dev),
          .inode = static_cast<int64_t>(status.st_ino),
          .size_bytes = status.st_size,
          .modified_unix_ns = unix_ns(status.st_mtim),
          .changed_unix_ns = unix_ns(status.st_ctim)};
}

}  // namespace

std::optional<std::string> Store::digest(const std::filesystem::path& file) const {
  return Statement(contents_->database, "select digest from file_digests where (" +
                                            field_columns<FileState>() + ") = (" +
                                            field_parameters<FileState>() + ")")
      .value<std::string>(state_of(file));
}

void Store::remember_digest(const std::filesystem::path& file, std::string_view digest) {
  const FileState state = state_of(file);
  Transaction transaction(contents_->database);
  Statement(contents_->database, "insert or replace into file_digests (" +
                                     field_columns<FileState>() + ", digest) values (" +
                                     field_parameters<FileState>() + ", ?)")
      .run(state, digest);
  transaction.commit();
}

}  // namespace fsdp
