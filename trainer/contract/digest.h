#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

// Digests of contents: XXH3 of 128 bits as 32 hexadecimal digits. They find changes and damage, not
// forgery.
namespace fsdp {

// Of bytes that come one after the other.
class Digest {
 public:
  Digest();
  void add(std::span<const std::byte> bytes);
  std::string text() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

std::string text_digest(std::string_view text);

}  // namespace fsdp
