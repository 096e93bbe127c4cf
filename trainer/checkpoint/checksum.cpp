#include "trainer/checkpoint/checksum.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>
#include <vector>

#include "trainer/contract/input_file.h"
#include "trainer/contract/start_up.h"

namespace fsdp {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

}  // namespace

int add_rest_of_file(Digest& digest, int descriptor, int64_t offset) {
  std::vector<std::byte> block(kBlockBytes);
  while (true) {
    const ssize_t count = pread(descriptor, block.data(), block.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : 0;
    digest.add(std::span(block).first(static_cast<size_t>(count)));
    continue_start_up_part();
    offset += count;
  }
}

std::string checksum_of_file(const std::filesystem::path& file) {
  begin_start_up_part("reading " + file.string());
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  Digest digest;
  const int error = descriptor < 0 ? errno : add_rest_of_file(digest, descriptor, 0);
  if (descriptor >= 0) close(descriptor);
  if (error != 0) refuse_file(file, "cannot be read: " + std::generic_category().message(error));
  return digest.text();
}

}  // namespace fsdp
