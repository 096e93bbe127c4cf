#include "runner/store/store_contents.h"

namespace fsdp {

std::optional<std::string> Store::digest(const FileState& file) const {
  return Statement(contents_->database, "select digest from file_digests where (" +
                                            field_columns<FileState>() + ") = (" +
                                            field_parameters<FileState>() + ")")
      .value<std::string>(file);
}

std::vector<std::string> Store::digests_of_path(std::string_view path) const {
  std::vector<std::string> digests;
  Statement(contents_->database, "select digest from file_digests where path = ?")
      .query([&](Statement& row) { digests.push_back(row.next<std::string>()); }, path);
  return digests;
}

void Store::remember_digest(const FileState& file, std::string_view digest) {
  Transaction transaction(contents_->database);
  Statement(contents_->database, "insert or replace into file_digests (" +
                                     field_columns<FileState>() + ", digest) values (" +
                                     field_parameters<FileState>() + ", ?)")
      .run(file, digest);
  transaction.commit();
}

}  // namespace fsdp
