#include "runner/host/whole_file.h"

#include <cerrno>
#include <fstream>
#include <system_error>

namespace fsdp {

void write_whole_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  std::error_code error;
  {
    std::ofstream file(temporary, std::ios::binary);
    file << text << std::flush;
    if (!file) error.assign(errno, std::generic_category());
  }
  if (!error) std::filesystem::rename(temporary, path, error);
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  throw std::system_error(error, path.string() + " cannot be written");
}

}  // namespace fsdp
