#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

namespace fsdp {

// A new file. Throws std::system_error with the file's name when it cannot be written, at the
// latest in close(), which is called once all is written.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);

  void write(std::string_view bytes);
  void close();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::ofstream stream_;
};

}  // namespace fsdp
