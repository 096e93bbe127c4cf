#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

// Digests of contents: XXH3 of 128 bits as 32 hexadecimal digits. They find changes and damage, not
// forgery.
namespace fsdp {

// Computes the digest of bytes that are added in pieces.
class Digest {
 public:
  Digest();
  void add(std::span<const std::byte> bytes);
  // Adds the rest of an open file. Returns 0, or the errno of a read that failed.
  int add_file(int descriptor, int64_t offset = 0);
  std::string text() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

std::string text_digest(std::string_view text);

}  // namespace fsdp
