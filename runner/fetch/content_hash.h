#pragma once

#include <nettle/sha1.h>
#include <nettle/sha2.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "contract/files/hub_listing.h"

namespace fsdp {

// Computes a hash of the same kind as `hash` over a file of `size_bytes` that arrives in parts.
class ContentHasher {
 public:
  ContentHasher(const ContentHash& hash, int64_t size_bytes);
  void add(std::string_view bytes);
  // Returns the hexadecimal hash. Nothing may be added afterwards.
  std::string text();

 private:
  bool is_sha256_;
  sha256_ctx sha256_;
  sha1_ctx sha1_;
};

}  // namespace fsdp
