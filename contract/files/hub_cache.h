#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "contract/text/hub_name.h"

// The cache of Hugging Face's Python libraries, which this project shares with them. Nothing here
// touches the network.
namespace fsdp {

// HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface.
std::filesystem::path hub_home();
// HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub/ in hub_home().
std::filesystem::path hub_cache_folder();

// The places of one repository in the cache:
//
//   models--organization--name/blobs/<hash>               contents
//                              refs/<revision>            the commit that it was last
//                              snapshots/<commit>/<path>  a link to a blob
//                              unfinished/<commit>        this project's: links are being made
//                              whole/<commit>/<folder>    this project's: all of a folder is there
//   .locks/models--organization--name/<hash>.lock
class CachedRepository {
 public:
  CachedRepository(std::filesystem::path cache, const HubName& name);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blob(const std::string& hash) const { return folder_ / "blobs" / hash; }
  std::filesystem::path ref(const std::string& revision) const {
    return folder_ / "refs" / revision;
  }
  std::filesystem::path snapshot(const std::string& commit) const {
    return folder_ / "snapshots" / commit;
  }
  std::filesystem::path unfinished(const std::string& commit) const {
    return folder_ / "unfinished" / commit;
  }
  std::filesystem::path whole(const std::string& commit, std::string folder) const;
  std::filesystem::path lock(const std::string& hash) const { return locks_ / (hash + ".lock"); }

  // The commit that `revision` was last; absent: never fetched. Throws ConfigError if the
  // file that says so cannot be read.
  std::optional<std::string> commit_of(const std::string& revision) const;

 private:
  std::filesystem::path folder_;
  std::filesystem::path locks_;
};

// The file or folder that `name` stands for, in a snapshot; absent: it is not there, or a fetch
// ended before all of its links were made, or of a folder only some files were fetched.
std::optional<std::filesystem::path> cached_path(const HubName& name);

}  // namespace fsdp
