#include "trainer/contract/digest.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <vector>

#include "trainer/contract/input_file.h"
#include "trainer/contract/unix_time.h"

namespace fsdp {
namespace {

// Longer than a tick of any file system's clock (FAT: 2 s).
constexpr int64_t kSettledAfterMs = 2'500;

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

class OpenFile {
 public:
  // Non-blocking, so that a named pipe is refused instead of waited for.
  explicit OpenFile(const std::filesystem::path& file)
      : file_(file), descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) refuse();
  }
  ~OpenFile() { close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  FileState state() const { return state_of(file_, descriptor_); }

  std::string digest() const {
    constexpr size_t kBlockBytes = 1 << 20;
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(),
                                                                         XXH3_freeState);
    XXH3_128bits_reset(hash.get());
    std::vector<char> block(kBlockBytes);
    for (;;) {
      const ssize_t count = read(descriptor_, block.data(), block.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse();
      if (count == 0) return hex(XXH3_128bits_digest(hash.get()));
      XXH3_128bits_update(hash.get(), block.data(), static_cast<size_t>(count));
    }
  }

 private:
  [[noreturn]] void refuse() const {
    refuse_file(file_, "cannot be read: " + std::generic_category().message(errno));
  }

  std::filesystem::path file_;
  int descriptor_;
};

}  // namespace

HashedFile hash_file(const std::filesystem::path& file) {
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    const int64_t begun_unix_ms = now_unix_ms();
    const OpenFile opened(file);
    HashedFile hashed{.state = opened.state(), .digest = opened.digest()};
    if (opened.state() != hashed.state || state_of(file) != hashed.state) continue;
    hashed.is_settled = hashed.state.changed_unix_ns / 1'000'000 + kSettledAfterMs < begun_unix_ms;
    return hashed;
  }
  refuse_file(file, "changed each time while it was read; run again when nothing writes to it");
}

std::string file_digest(const std::filesystem::path& file) { return hash_file(file).digest; }

std::string text_digest(std::string_view text) {
  return hex(XXH3_128bits(text.data(), text.size()));
}

}  // namespace fsdp
