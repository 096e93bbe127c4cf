#include "runner/export/published_folder.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <random>
#include <system_error>

namespace fsdp {
namespace {

// Creates a folder beside `place` under an unused name.
std::filesystem::path new_folder_beside(const std::filesystem::path& place) {
  std::random_device source;
  for (;;) {
    const std::filesystem::path folder =
        place.parent_path() / (".fsdp-run-" + std::to_string(source()) + ".partial");
    if (std::filesystem::create_directory(folder)) return folder;
  }
}

// Swaps two folders. On a file system without an atomic swap, `b` is missing for a moment.
void swap_folders(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL) throw std::system_error(errno, std::generic_category(), b.string());
  const std::filesystem::path aside = new_folder_beside(b);
  std::filesystem::rename(b, aside);
  std::filesystem::rename(a, b);
  std::filesystem::rename(aside, a);
}

}  // namespace

PublishedFolder::PublishedFolder(const std::filesystem::path& place)
    : place_(std::filesystem::weakly_canonical(std::filesystem::absolute(place))) {
  if (!place_.has_filename()) place_ = place_.parent_path();
  std::filesystem::create_directories(place_.parent_path());
  partial_ = new_folder_beside(place_);
}

PublishedFolder::~PublishedFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(partial_, ignored);
}

void PublishedFolder::publish() {
  if (std::filesystem::exists(place_)) {
    std::filesystem::permissions(partial_, std::filesystem::status(place_).permissions());
    swap_folders(partial_, place_);
  } else {
    std::filesystem::rename(partial_, place_);
  }
}

}  // namespace fsdp
