#include "runner/fetch/content_hash.h"

#include <array>
#include <span>

namespace fsdp {
namespace {

const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

std::string hexadecimal(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

ContentHasher::ContentHasher(const ContentHash& hash, int64_t size_bytes)
    : is_sha256_(hash.is_sha256) {
  sha256_init(&sha256_);
  sha1_init(&sha1_);
  if (is_sha256_) return;
  const std::string header = "blob " + std::to_string(size_bytes);
  sha1_update(&sha1_, header.size() + 1, bytes_of(header));  // with its NUL
}

void ContentHasher::add(std::string_view bytes) {
  if (is_sha256_) {
    sha256_update(&sha256_, bytes.size(), bytes_of(bytes));
  } else {
    sha1_update(&sha1_, bytes.size(), bytes_of(bytes));
  }
}

std::string ContentHasher::text() {
  if (is_sha256_) {
    std::array<uint8_t, SHA256_DIGEST_SIZE> digest;
    sha256_digest(&sha256_, digest.size(), digest.data());
    return hexadecimal(digest);
  }
  std::array<uint8_t, SHA1_DIGEST_SIZE> digest;
  sha1_digest(&sha1_, digest.size(), digest.data());
  return hexadecimal(digest);
}

}  // namespace fsdp
