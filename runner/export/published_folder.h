#pragma once

#include <filesystem>

namespace fsdp {

// A folder that is written under a temporary name. publish() moves it to its place. Until then the
// old folder is untouched; without publish() the new folder is removed. If the place is a link, the
// link stays and its target is replaced. Folders keep their mode.
class PublishedFolder {
 public:
  // Creates the folder to write into. Throws std::system_error.
  explicit PublishedFolder(const std::filesystem::path& place);
  ~PublishedFolder();
  PublishedFolder(const PublishedFolder&) = delete;
  PublishedFolder& operator=(const PublishedFolder&) = delete;

  const std::filesystem::path& folder() const { return partial_; }
  // Moves the folder to its place. The destructor removes the replaced folder.
  void publish();

 private:
  std::filesystem::path place_;
  std::filesystem::path partial_;
};

}  // namespace fsdp
