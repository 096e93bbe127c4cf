#include "trainer/checkpoint/checksum.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <vector>

#include "trainer/contract/input_file.h"
#include "trainer/contract/start_up.h"

namespace fsdp {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

}  // namespace

void Checksum::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Checksum::Checksum() : state_(XXH3_createState()) {
  if (!state_ || XXH3_128bits_reset(state_.get()) != XXH_OK) throw std::bad_alloc();
}

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string Checksum::text() const {
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

std::string checksum_of(std::string_view text) {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(text)));
  return checksum.text();
}

int add_rest_of_file(Checksum& checksum, int descriptor, int64_t offset) {
  std::vector<std::byte> block(kBlockBytes);
  while (true) {
    const ssize_t count = pread(descriptor, block.data(), block.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : 0;
    checksum.add(std::span(block).first(static_cast<size_t>(count)));
    continue_start_up_part();
    offset += count;
  }
}

std::string checksum_of_file(const std::filesystem::path& file) {
  begin_start_up_part("reading " + file.string());
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  Checksum checksum;
  const int error = descriptor < 0 ? errno : add_rest_of_file(checksum, descriptor, 0);
  if (descriptor >= 0) close(descriptor);
  if (error != 0) refuse_file(file, "cannot be read: " + std::generic_category().message(error));
  return checksum.text();
}

}  // namespace fsdp
