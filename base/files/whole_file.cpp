// Writes whole files. Links, pipes and devices that a user named are kept.
#include "base/files/whole_file.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include "base/text/config_error.h"

namespace fsdp {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error = errno) {
  throw std::system_error(error, std::generic_category(), path.string() + " cannot be written");
}

// True if links in `folder` mean files that a process has open, as /dev/stdout does.
bool is_of_a_process(const std::filesystem::path& folder) {
  struct statfs system {};
  return statfs(folder.empty() ? "." : folder.c_str(), &system) == 0 &&
         system.f_type == PROC_SUPER_MAGIC;
}

// Returns the path behind the links at `path`, if any; it need not exist. Links in /proc are not
// followed.
std::filesystem::path behind_links(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // as in Linux
  std::filesystem::path place = path;
  for (int links = 0; std::filesystem::is_symlink(place); ++links) {
    if (links == kMostLinks) fail(path, ELOOP);
    if (is_of_a_process(place.parent_path())) break;
    place = place.parent_path() / std::filesystem::read_symlink(place);
  }
  return place;
}

// Measurements must not be replaced by a table of them.
void refuse_database(const std::filesystem::path& place) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  std::string bytes(kMagic.size(), 0);
  std::ifstream(place, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  if (bytes != kMagic) return;
  throw ConfigError(place.string(), "", "is a database and is not replaced; name another file");
}

void write_to(const std::filesystem::path& place, std::string_view text) {
  // Appends, because other processes may write to the same open file.
  std::ofstream file(place, std::ios::binary | std::ios::app);
  file << text;
  file.close();
  if (!file) fail(place);
}

// Keeps the old file's mode and owner. Only root may change owners; others may choose their groups.
void take_over(int file, const struct stat& before, const std::filesystem::path& place) {
  const bool is_owned_alike = before.st_uid == geteuid() && before.st_gid == getegid();
  if (!is_owned_alike && fchown(file, before.st_uid, before.st_gid) != 0) {
    static_cast<void>(fchown(file, static_cast<uid_t>(-1), before.st_gid) == 0);
  }
  if (fchmod(file, before.st_mode & 0777) != 0) fail(place);
}

}  // namespace

void replace_file(const std::filesystem::path& place, std::string_view text, OnDisk when) {
  struct stat before {};
  const bool is_there = lstat(place.c_str(), &before) == 0;
  if (!is_there && errno != ENOENT) fail(place);
  NewFile file(place, name_by_chance(place));
  if (is_there && S_ISREG(before.st_mode)) take_over(file.descriptor(), before, place);
  file.append(std::as_bytes(std::span(text)));
  file.publish(when);
}

void write_whole_file(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path place = behind_links(path);
  struct stat before {};
  const bool is_there = lstat(place.c_str(), &before) == 0;
  if (!is_there && errno != ENOENT) fail(path);
  if (is_there && !S_ISREG(before.st_mode)) return write_to(place, text);
  if (is_there) refuse_database(place);
  replace_file(place, text);
}

}  // namespace fsdp
