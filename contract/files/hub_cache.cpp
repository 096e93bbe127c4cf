#include "contract/files/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "contract/files/input_file.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// A variable of the environment as a path, where a leading ~ is the home folder; empty: not set.
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

}  // namespace

path hub_home() {
  if (path home = path_variable("HF_HOME"); !home.empty()) return home;
  if (const path caches = path_variable("XDG_CACHE_HOME"); !caches.empty()) {
    return caches / "huggingface";
  }
  const path home = path_variable("HOME");
  return (home.empty() ? path("/") : home) / ".cache/huggingface";
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

path CachedRepository::whole(const std::string& commit, std::string folder) const {
  for (size_t at = 0; (at = folder.find('/', at)) != std::string::npos;) {
    folder.replace(at, 1, "%2F");
  }
  return folder_ / "whole" / commit / folder;
}

std::optional<std::string> CachedRepository::commit_of(const std::string& revision) const {
  const path file = ref(revision);
  std::error_code unknown;
  if (!is_there(file) || std::filesystem::is_directory(file, unknown)) return std::nullopt;
  const std::string text = read_input_file(file);
  const std::string commit = text.substr(0, text.find_first_of(" \r\n"));
  const HubName named{.revision = commit};
  return named.is_commit() ? std::optional(commit) : std::nullopt;
}

std::optional<path> cached_path(const HubName& name) {
  const CachedRepository repository(hub_cache_folder(), name);
  const auto commit =
      name.is_commit() ? std::optional(name.revision) : repository.commit_of(name.revision);
  if (!commit || is_there(repository.unfinished(*commit))) return std::nullopt;
  const path place =
      name.path.empty() ? repository.snapshot(*commit) : repository.snapshot(*commit) / name.path;
  std::error_code unknown;
  const bool is_part = !name.path.empty() && std::filesystem::is_directory(place, unknown) &&
                       !is_there(repository.whole(*commit, name.path));
  return is_there(place) && !is_part ? std::optional(place) : std::nullopt;
}

}  // namespace fsdp
