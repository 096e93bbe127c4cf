#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/files/scratch_folder.h"

namespace fsdp {

// A folder that is deleted with the object.
class TemporaryFolder : public ScratchFolder {
 public:
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path() / name, std::ios::binary) << bytes;
    return path() / name;
  }

  // Returns `text` with this folder's path removed from all file names.
  std::string without_folder(std::string text) const {
    const std::string prefix = path().string() + '/';
    for (size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
    return text;
  }
};

// The names of the entries of `folder`, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace fsdp
