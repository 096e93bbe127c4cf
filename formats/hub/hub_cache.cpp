// Finds files in the cache of Hugging Face's libraries. Never uses the network.
#include "formats/hub/hub_cache.h"

#include <sys/stat.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/files/digest.h"
#include "base/files/input_file.h"
#include "base/text/foreign_json.h"
#include "base/text/json.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

using nlohmann::json;
using std::filesystem::path;

constexpr int64_t kLargestFileBytes = int64_t{1} << 50;
constexpr size_t kLargestListingBytes = 256 << 20;
constexpr size_t kSha256Digits = 64;
constexpr size_t kSha1Digits = 40;

ContentHash hash_of(const json& entry) {
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    return {true, lfs->value("oid", "")};
  }
  return {false, entry.value("oid", "")};
}

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

ListedFile listed_file(const json& entry, const std::string& hub) {
  const json& size = entry.at("size");
  ListedFile file;
  file.path = entry.at("path").get<std::string>();
  file.size_bytes = size.is_number_integer() ? size.get<int64_t>() : -1;
  file.hash = hash_of(entry);
  if (!is_harmless_path(file.path)) {
    throw std::runtime_error(hub + " lists the file name '" +
                             visible_line(shortened(file.path, 200)) +
                             "', which leads out of a repository or cannot be shown");
  }
  if (file.size_bytes < 0 || file.size_bytes > kLargestFileBytes) {
    throw std::runtime_error(hub + " lists " + file.path + " with a size that no file has");
  }
  if (!is_hexadecimal(file.hash.text, file.hash.is_sha256 ? kSha256Digits : kSha1Digits)) {
    throw std::runtime_error(hub + " lists " + file.path + " without a hash");
  }
  return file;
}

std::string listing_text(const HubListing& listing) {
  std::vector<JsonObject> files;
  for (const ListedFile& file : listing.files) {
    JsonObject& entry = files.emplace_back();
    entry.add("path", file.path).add("size", file.size_bytes);
    if (file.hash.is_sha256) {
      entry.add("lfs", JsonObject().add("oid", file.hash.text));
    } else {
      entry.add("oid", file.hash.text);
    }
  }
  return JsonObject()
      .add("folder", listing.folder)
      .add("is_recursive", listing.is_recursive)
      .add("files", files)
      .text();
}

HubListing parse_listing(std::string_view text) {
  const json parsed = parse_foreign_json(text, kLargestListingBytes);
  HubListing listing;
  parsed.at("folder").get_to(listing.folder);
  parsed.at("is_recursive").get_to(listing.is_recursive);
  for (const json& entry : parsed.at("files")) {
    listing.files.push_back(listed_file(entry, "the listing"));
  }
  return listing;
}

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
  // A digest, because a folder's path may be too long for a file name.
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
  // A link names the hash of its blob. A file without a link can only be compared by its size.
  if (!no_link && target.filename() != file.hash.text) return false;
  struct stat found {};
  return stat(place.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         found.st_size == file.size_bytes;
}

}  // namespace fsdp
