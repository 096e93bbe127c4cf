#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

// XXH3-128 of bytes, as 32 hexadecimal digits. It finds damage, not forgery.
namespace fsdp {

// Of bytes that come one after the other.
class Checksum {
 public:
  Checksum();
  void add(std::span<const std::byte> bytes);
  std::string text() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

std::string checksum_of(std::string_view text);

// Adds the bytes of an open file, from `offset` on. Returns 0, or the errno of a read that failed.
int add_rest_of_file(Checksum& checksum, int descriptor, int64_t offset);

// Throws ConfigError when the file cannot be read.
std::string checksum_of_file(const std::filesystem::path& file);

}  // namespace fsdp
