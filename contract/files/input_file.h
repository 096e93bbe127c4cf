#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

// Reading files that the user supplied: what is wrong with one is a ConfigError whose place is the
// file.
namespace fsdp {

// A regular file mapped read-only; the mapping lives as long as the object.
class MappedFile {
 public:
  // Throws std::system_error.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

  // Gives the memory of whole pages of these bytes back; who reads them again waits for the disk.
  void forget(size_t offset, size_t count) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Throws ConfigError when the file cannot be read, or only stands for one in Git LFS.
std::shared_ptr<const MappedFile> map_input_file(const std::filesystem::path& path);

// Whether there is something of this name. Throws ConfigError when that cannot be told: a folder
// that may not be entered, links in a circle.
bool input_exists(const std::filesystem::path& path);

// Parses `text`, which stands in `path`, as a JSON object. Throws ConfigError, also when it is
// larger than any such document (see foreign_json.h).
nlohmann::json parse_json_object(const std::filesystem::path& path, std::string_view text);
nlohmann::json parse_json_object(const std::filesystem::path& path, std::string_view text,
                                 size_t largest_bytes);

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& problem);
// Of one that is not there it is said what is.
[[noreturn]] void refuse_unreadable(const std::filesystem::path& path,
                                    const std::error_code& error);

}  // namespace fsdp
