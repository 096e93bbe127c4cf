#include "formats/hub/hub_cache.h"

#include <sys/stat.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "base/files/digest.h"
#include "base/files/input_file.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// An environment variable as a path, with a leading ~ for the home folder; empty if it is not set.
path path_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return {};
  const std::string text = value;
  const char* home = std::getenv("HOME");
  if (home != nullptr && (text == "~" || text.starts_with("~/"))) return home + text.substr(1);
  return std::filesystem::absolute(text);
}

bool is_there(const path& place) {
  std::error_code unknown;
  return std::filesystem::exists(place, unknown);
}

path hub_home() {
  if (path home = path_variable("HF_HOME"); !home.empty()) return home;
  if (const path caches = path_variable("XDG_CACHE_HOME"); !caches.empty()) {
    return caches / "huggingface";
  }
  const path home = path_variable("HOME");
  return (home.empty() ? path("/") : home) / ".cache/huggingface";
}

}  // namespace

path hub_cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (path folder = path_variable(name); !folder.empty()) return folder;
  }
  return hub_home() / "hub";
}

CachedRepository::CachedRepository(path cache, const HubName& name) {
  std::string folder = (name.is_dataset ? "datasets--" : "models--") + name.repository;
  folder.replace(folder.find('/'), 1, "--");
  folder_ = cache / folder;
  locks_ = cache / ".locks" / folder;
}

path CachedRepository::listing(const std::string& commit, const std::string& folder,
                               bool is_recursive) const {
  // A folder's path may be longer than the name of a file.
  const std::string name = text_digest((is_recursive ? "below " : "in ") + folder);
  return folder_ / "listings" / commit / name;
}

std::optional<std::string> CachedRepository::commit_of(const std::string& revision) const {
  const path file = ref(revision);
  std::error_code unknown;
  if (!is_there(file) || std::filesystem::is_directory(file, unknown)) return std::nullopt;
  constexpr size_t kMostBytes = 4096;
  const std::string text = read_input_file(file, kMostBytes);
  const std::string commit = text.substr(0, text.find_first_of(" \r\n"));
  const HubName named{.revision = commit};
  return named.is_commit() ? std::optional(commit) : std::nullopt;
}

std::optional<HubListing> CachedRepository::read_listing(const std::string& commit,
                                                         const std::string& folder,
                                                         bool is_recursive) const {
  try {
    HubListing found = parse_listing(read_input_file(listing(commit, folder, is_recursive)));
    if (found.folder == folder && found.is_recursive == is_recursive) return found;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // a fetch writes the record anew
  }
  return std::nullopt;
}

bool CachedRepository::has(const std::string& commit, const ListedFile& file) const {
  const path place = snapshot(commit) / file.path;
  std::error_code no_link;
  const path target = std::filesystem::read_symlink(place, no_link);
  if (!no_link && target.filename() != file.hash.text) return false;
  struct stat found {};
  return stat(place.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         found.st_size == file.size_bytes;
}

}  // namespace fsdp
