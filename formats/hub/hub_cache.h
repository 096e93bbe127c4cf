#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "contract/spec/hub_name.h"
#include "formats/hub/hub_listing.h"

// The cache of Hugging Face's Python libraries, which this project shares with them. Nothing here
// touches the network.
namespace fsdp {

// HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub/ in the first of HF_HOME,
// $XDG_CACHE_HOME/huggingface and ~/.cache/huggingface.
std::filesystem::path hub_cache_folder();

// The places of one repository in the cache:
//
//   models--organization--name/blobs/<hash>               contents
//                              refs/<revision>            the commit that it was last
//                              snapshots/<commit>/<path>  a link to a blob, or a file
//                              listings/<commit>/<digest> this project's: what the hub lists
//   .locks/models--organization--name/<hash>.lock
class CachedRepository {
 public:
  CachedRepository(std::filesystem::path cache, const HubName& name);

  std::filesystem::path blob(const std::string& hash) const { return folder_ / "blobs" / hash; }
  std::filesystem::path ref(const std::string& revision) const {
    return folder_ / "refs" / revision;
  }
  std::filesystem::path snapshot(const std::string& commit) const {
    return folder_ / "snapshots" / commit;
  }
  std::filesystem::path listing(const std::string& commit, const std::string& folder,
                                bool is_recursive) const;
  std::filesystem::path lock(const std::string& hash) const { return locks_ / (hash + ".lock"); }

  // The latest known commit of `revision`; nullopt if it was never fetched. Throws ConfigError if
  // the file with the commit cannot be read.
  std::optional<std::string> commit_of(const std::string& revision) const;

  // The hub's listing of the commit when this project last asked; nullopt if it never asked or the
  // record is damaged.
  std::optional<HubListing> read_listing(const std::string& commit, const std::string& folder,
                                         bool is_recursive) const;
  // True if the snapshot has the file with the listed contents. If the file is no link, only its
  // size is compared.
  bool has(const std::string& commit, const ListedFile& file) const;

 private:
  std::filesystem::path folder_;
  std::filesystem::path locks_;
};

}  // namespace fsdp
