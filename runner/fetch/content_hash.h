#pragma once

#include <nettle/sha1.h>
#include <nettle/sha2.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace fsdp {

// What a hub says of a file's contents: SHA-256 of large files (those in Git LFS), and git's name
// for others, which is SHA-1 of "blob <size>\0" and the contents.
struct ContentHash {
  bool is_sha256 = false;
  std::string text;  // hexadecimal

  std::string kind() const { return is_sha256 ? "sha256" : "git's sha1"; }
};

// Hashes bytes that come one after the other as `hash` does, of a file of `size_bytes`.
class ContentHasher {
 public:
  ContentHasher(const ContentHash& hash, int64_t size_bytes);
  void add(std::string_view bytes);
  // Hexadecimal; nothing can be added afterwards.
  std::string text();

 private:
  bool is_sha256_;
  sha256_ctx sha256_;
  sha1_ctx sha1_;
};

}  // namespace fsdp
