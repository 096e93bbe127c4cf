#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/hub_name.h"

// The cache of Hugging Face's Python libraries, which this project shares with them. Nothing here
// touches the network.
namespace fsdp {

// A hub's hash of a file. Large files (in Git LFS) have a SHA-256. Others have git's hash: the
// SHA-1 of "blob <size>\0" followed by the contents.
struct ContentHash {
  bool is_sha256 = false;
  std::string text{};  // hexadecimal

  bool operator==(const ContentHash&) const = default;
};

// One file of a repository.
struct ListedFile {
  std::string path{};
  int64_t size_bytes = 0;
  ContentHash hash{};

  bool operator==(const ListedFile&) const = default;
};

// Reads one entry of a hub's list of files. The result has a harmless path and a hexadecimal hash.
// Throws nlohmann::json::exception if `entry` has another form. Throws std::runtime_error, with a
// message that begins with `hub`, if its path, size or hash is impossible.
ListedFile listed_file(const nlohmann::json& entry, const std::string& hub);

// The files that a hub listed in `folder` of a commit; an empty name is the repository's root.
// Includes subfolders if `is_recursive`.
struct HubListing {
  std::string folder{};
  bool is_recursive = false;
  std::vector<ListedFile> files{};

  bool operator==(const HubListing&) const = default;
};

// Writes the listing as JSON. Each file has the form that a hub gives it.
std::string listing_text(const HubListing& listing);

// Reads what listing_text wrote. Throws std::exception if `text` is something else.
HubListing parse_listing(std::string_view text);

// HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub/ in the first of HF_HOME,
// $XDG_CACHE_HOME/huggingface and ~/.cache/huggingface.
std::filesystem::path hub_cache_folder();

// The places of one repository in the cache:
//
//   models--organization--name/blobs/<hash>               contents
//                              refs/<revision>            its commit when last fetched
//                              snapshots/<commit>/<path>  a link to a blob, or a file
//                              listings/<commit>/<digest> the hub's list of files; only this
//                                                         project reads and writes it
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
