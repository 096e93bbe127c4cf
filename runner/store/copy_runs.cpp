// Copies the files that describe runs out of folders of other people. No link is followed: it could
// lead to a file that only the caller may read.
#include "runner/store/copy_runs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#include "base/text/config_error.h"
#include "runner/store/run_files.h"

namespace fsdp {
namespace {

using std::filesystem::path;

[[noreturn]] void refuse(const path& place, const std::string& problem) {
  throw ConfigError(place.string(), "", problem);
}

// An open file or folder that is no link.
class OpenPlace {
 public:
  OpenPlace(const path& place, int flags)
      : descriptor_(open(place.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | flags)) {
    if (descriptor_ >= 0) return;
    std::error_code gone;
    if (std::filesystem::is_symlink(place, gone)) refuse(place, "is a link, which is not followed");
    refuse(place, "cannot be read: " + std::generic_category().message(errno));
  }
  ~OpenPlace() { close(descriptor_); }
  OpenPlace(const OpenPlace&) = delete;
  OpenPlace& operator=(const OpenPlace&) = delete;

  path by_descriptor() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// Returns the largest size of a file of this name. 0: such a file does not describe runs.
uintmax_t most_bytes_of(const path& file) {
  const path extension = file.extension();
  if (extension == ".json" || extension == ".yaml") return uintmax_t{64} << 20;
  if (extension == ".jsonl") return uintmax_t{4} << 30;
  return extension == ".log" ? uintmax_t{1} << 20 : 0;
}

void copy_one(const path& from, const path& to) {
  if (most_bytes_of(from) == 0 || std::filesystem::exists(to)) return;
  const OpenPlace file(from, 0);
  const path opened = file.by_descriptor();
  if (!std::filesystem::is_regular_file(opened)) refuse(from, "is no file");
  if (std::filesystem::file_size(opened) > most_bytes_of(from)) {
    if (from.extension() == ".log") return;
    refuse(from, "is too large for a file of its kind");
  }
  std::filesystem::create_directories(to.parent_path());
  std::error_code error;
  std::filesystem::copy_file(opened, to, error);
  if (error) throw std::system_error(error, to.string() + " cannot be written");
}

// Returns the names in a folder that is no link. Empty if it is missing.
std::vector<path> names_in_folder(const path& folder) {
  std::error_code none;
  const auto type = std::filesystem::symlink_status(folder, none).type();
  if (type == std::filesystem::file_type::not_found) return {};
  return visible_names(OpenPlace(folder, O_DIRECTORY).by_descriptor());
}

void copy_files(const path& from, const path& to) {
  for (const path& name : names_in_folder(from)) copy_one(from / name, to / name);
}

}  // namespace

void copy_run(const path& from, const path& to) {
  for (const path& name : names_in_folder(from)) {
    if (name.native().starts_with("attempt-")) {
      copy_files(from / name, to / name);
    } else {
      copy_one(from / name, to / name);
    }
  }
}

void copy_results(const path& from, const path& to) {
  for (const path& list : names_in_folder(from / "runs")) {
    for (const path& run : names_in_folder(from / "runs" / list)) {
      const path folder = path("runs") / list / run;
      if (!std::filesystem::exists(to / folder)) copy_run(from / folder, to / folder);
    }
  }
  copy_files(from / "lists", to / "lists");
  copy_files(from / "texts", to / "texts");
  for (const path& name : names_in_folder(from / "merged")) {
    const path merged = path("merged") / name;
    const OpenPlace is_no_link(from / merged, O_DIRECTORY);
    copy_results(from / merged, to / merged);
    if (std::filesystem::exists(source_file(from / merged))) {
      copy_one(source_file(from / merged), source_file(to / merged));
    }
  }
}

}  // namespace fsdp
