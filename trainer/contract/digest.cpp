#include "trainer/contract/digest.h"

#include <xxhash.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <system_error>
#include <vector>

#include "trainer/contract/config_error.h"

namespace fsdp {
namespace {

std::string hex(XXH128_hash_t hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

std::string file_digest(const std::filesystem::path& file) {
  constexpr size_t kBlockBytes = 1 << 20;
  std::ifstream stream(file, std::ios::binary);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> block(kBlockBytes);
  while (stream.read(block.data(), kBlockBytes) || stream.gcount() > 0) {
    XXH3_128bits_update(state.get(), block.data(), static_cast<size_t>(stream.gcount()));
  }
  if (!stream.eof()) {
    throw ConfigError(file.string(), "",
                      "cannot be read: " + std::generic_category().message(errno));
  }
  return hex(XXH3_128bits_digest(state.get()));
}

std::string text_digest(std::string_view text) {
  return hex(XXH3_128bits(text.data(), text.size()));
}

}  // namespace fsdp
