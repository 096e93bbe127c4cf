#include "base/files/file_digest.h"

#include <system_error>

#include "base/files/digest.h"
#include "base/files/input_file.h"
#include "base/system/unix_time.h"

namespace fsdp {
namespace {

// This time exceeds a tick of any file system's clock (FAT: 2 s).
constexpr int64_t kSettledAfterMs = 2'500;

std::string digest_of(const InputFile& file) {
  Digest digest;
  const int error = digest.add_file(file.descriptor());
  if (error != 0) refuse_unreadable(file.path(), {error, std::generic_category()});
  return digest.text();
}

}  // namespace

HashedFile hash_file(const std::filesystem::path& file) {
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    const int64_t begun_unix_ms = now_unix_ms();
    const InputFile opened(file);
    HashedFile hashed;
    hashed.state = state_of(file, opened.descriptor());
    hashed.digest = digest_of(opened);
    if (state_of(file, opened.descriptor()) != hashed.state) continue;
    if (state_of(file) != hashed.state) continue;
    hashed.is_settled = hashed.state.changed_unix_ns / 1'000'000 + kSettledAfterMs < begun_unix_ms;
    return hashed;
  }
  refuse_file(file, "changed each time while it was read; run again when nothing writes to it");
}

std::string file_digest(const std::filesystem::path& file) { return hash_file(file).digest; }

}  // namespace fsdp
