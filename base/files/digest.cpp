// Computes XXH3 digests of texts and files.
#include "base/files/digest.h"

#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <new>
#include <vector>

#include "base/system/start_up.h"

namespace fsdp {

void Digest::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Digest::Digest() : state_(XXH3_createState()) {
  if (!state_ || XXH3_128bits_reset(state_.get()) != XXH_OK) throw std::bad_alloc();
}

void Digest::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

int Digest::add_file(int descriptor, int64_t offset) {
  constexpr size_t kBlockBytes = 1 << 20;
  std::vector<std::byte> block(kBlockBytes);
  while (true) {
    const ssize_t count = pread(descriptor, block.data(), block.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : 0;
    add(std::span(block).first(static_cast<size_t>(count)));
    continue_start_up_part();
    offset += count;
  }
}

std::string Digest::text() const {
  constexpr char kDigits[] = "0123456789abcdef";
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string text_digest(std::string_view text) {
  Digest digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.text();
}

}  // namespace fsdp
