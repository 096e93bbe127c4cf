#pragma once

#include <nettle/sha1.h>
#include <nettle/sha2.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "contract/files/hub_listing.h"

namespace fsdp {

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
