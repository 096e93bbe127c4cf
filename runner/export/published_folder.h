#pragma once

#include <filesystem>

namespace fsdp {

// A folder that is written under another name beside its place and takes its place when it is
// whole. What stood there is untouched until then; without publish() the new one is removed. A link
// to a folder stays, and the folder that it means is replaced. Folders keep their mode.
class PublishedFolder {
 public:
  // Creates the folder to write into. Throws std::system_error.
  explicit PublishedFolder(const std::filesystem::path& place);
  ~PublishedFolder();
  PublishedFolder(const PublishedFolder&) = delete;
  PublishedFolder& operator=(const PublishedFolder&) = delete;

  const std::filesystem::path& folder() const { return partial_; }
  // Removes what stood in its place.
  void publish();

 private:
  std::filesystem::path place_;
  std::filesystem::path partial_;
};

}  // namespace fsdp
