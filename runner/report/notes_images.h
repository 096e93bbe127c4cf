#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fsdp {

// Embeds the images that notes name.
class NotesImages {
 public:
  // `file` holds the notes. Its folder holds the images.
  explicit NotesImages(std::filesystem::path file);

  // Returns the image as a URL of its own contents. Throws ConfigError as notes_html() says.
  std::string data_url(std::string_view url);

 private:
  std::filesystem::path resolved(std::string_view url) const;
  [[noreturn]] void refuse(std::string_view url, const std::string& problem) const;

  std::filesystem::path file_;
  std::filesystem::path folder_;
  uint64_t bytes_left_;
};

}  // namespace fsdp
