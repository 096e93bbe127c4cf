#include "runner/store/store_contents.h"

namespace fsdp {

std::optional<std::string> Store::digest(const FileState& file) const {
  return Statement(contents_->database, "select digest from file_digests where " +
                                            field_columns<FileState>(" = ?", "", " and "))
      .value<std::string>(file);
}

std::vector<std::string> Store::digests_of_path(std::string_view path) const {
  return Statement(contents_->database, "select digest from file_digests where path = ?")
      .rows<std::string>(path);
}

void Store::remember_digest(const FileState& file, std::string_view digest) {
  Statement(contents_->database, "insert or replace into file_digests " +
                                     values_of(field_columns<FileState>() + ", digest"))
      .run(file, digest);
}

}  // namespace fsdp
