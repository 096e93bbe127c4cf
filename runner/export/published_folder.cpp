#include "runner/export/published_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <system_error>

namespace fsdp {
namespace {

// Where the file system cannot swap two folders at once, there is a moment without one.
void swap_folders(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL) throw std::system_error(errno, std::generic_category(), b.string());
  const std::filesystem::path aside = a.string() + ".replaced";
  std::filesystem::rename(b, aside);
  std::filesystem::rename(a, b);
  std::filesystem::rename(aside, a);
}

}  // namespace

PublishedFolder::PublishedFolder(const std::filesystem::path& place)
    : place_(std::filesystem::absolute(place).lexically_normal()) {
  if (!place_.has_filename()) place_ = place_.parent_path();
  partial_ = place_.parent_path() /
             ('.' + place_.filename().string() + ".partial-" + std::to_string(getpid()));
  std::filesystem::create_directories(place_.parent_path());
  std::filesystem::remove_all(partial_);
  std::filesystem::create_directory(partial_);
}

PublishedFolder::~PublishedFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(partial_, ignored);
}

void PublishedFolder::publish() {
  if (std::filesystem::exists(place_)) {
    swap_folders(partial_, place_);
  } else {
    std::filesystem::rename(partial_, place_);
  }
}

}  // namespace fsdp
