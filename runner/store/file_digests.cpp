#include <sys/stat.h>

#include <system_error>

#include "runner/store/store_contents.h"

namespace fsdp {
namespace {

struct FileState {
  std::string path;
  int64_t size_bytes = 0;
  int64_t modified_unix_ns = 0;
};

FileState state_of(const std::filesystem::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) {
    throw std::system_error(errno, std::generic_category(), file.string());
  }
  return {.path = std::filesystem::canonical(file).string(),
          .size_bytes = status.st_size,
          .modified_unix_ns = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

}  // namespace

std::optional<std::string> Store::digest(const std::filesystem::path& file) const {
  const FileState state = state_of(file);
  return Statement(contents_->database,
                   "select digest from file_digests "
                   "where path = ? and size_bytes = ? and modified_unix_ns = ?")
      .value<std::string>(state.path, state.size_bytes, state.modified_unix_ns);
}

void Store::remember_digest(const std::filesystem::path& file, std::string_view digest) {
  const FileState state = state_of(file);
  Transaction transaction(contents_->database);
  Statement(contents_->database,
            "insert or replace into file_digests (path, size_bytes, modified_unix_ns, digest) "
            "values (?, ?, ?, ?)")
      .run(state.path, state.size_bytes, state.modified_unix_ns, digest);
  transaction.commit();
}

}  // namespace fsdp
