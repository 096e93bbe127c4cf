#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

// A hub's listing of the files of a repository's commit.
namespace fsdp {

// A hub's hash of a file. Large files (in Git LFS) have a SHA-256. Others have git's name, the
// SHA-1 of "blob <size>\0" and the contents.
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

// Reads one file of a hub's list. Its path is harmless and its hash hexadecimal. Throws
// nlohmann::json::exception if `entry` has another form. Throws std::runtime_error, whose text
// begins with `hub`, if such a file cannot exist.
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

}  // namespace fsdp
