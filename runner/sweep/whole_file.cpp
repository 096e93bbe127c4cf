#include "runner/sweep/whole_file.h"

#include <cerrno>
#include <fstream>
#include <system_error>

namespace fsdp {

void write_whole_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    throw std::system_error(errno, std::generic_category(), "cannot write " + temporary.string());
  }
  std::filesystem::rename(temporary, path);
}

}  // namespace fsdp
