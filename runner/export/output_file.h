#pragma once

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace fsdp {

// A new file. Call close() after the last write. Each member throws std::system_error with the
// file's name if the file cannot be written.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path)
      : path_(std::move(path)), stream_(path_, std::ios::binary) {
    check();
  }

  void write(std::string_view bytes) {
    stream_ << bytes;
    check();
  }
  void close() {
    stream_.close();
    check();
  }

 private:
  void check() const {
    if (stream_) return;
    throw std::system_error(
        errno, std::generic_category(),
        path_.string() + " cannot be written; free its place or name another folder");
  }

  std::filesystem::path path_;
  std::ofstream stream_;
};

}  // namespace fsdp
