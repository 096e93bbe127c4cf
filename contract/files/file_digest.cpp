#include "contract/files/file_digest.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "contract/files/input_file.h"
#include "contract/record/digest.h"
#include "contract/record/unix_time.h"

namespace fsdp {
namespace {

// Longer than a tick of any file system's clock (FAT: 2 s).
constexpr int64_t kSettledAfterMs = 2'500;

class OpenFile {
 public:
  // Non-blocking, so that a named pipe is refused instead of waited for.
  explicit OpenFile(const std::filesystem::path& file)
      : file_(file), descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) refuse(errno);
  }
  ~OpenFile() { close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  FileState state() const { return state_of(file_, descriptor_); }

  std::string digest() const {
    Digest digest;
    if (const int error = digest.add_file(descriptor_); error != 0) refuse(error);
    return digest.text();
  }

 private:
  [[noreturn]] void refuse(int error) const {
    refuse_file(file_, "cannot be read: " + std::generic_category().message(error));
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

}  // namespace fsdp
