#include <catch2/catch.hpp>

#include "runner/export/exported_run.h"

namespace fsdp {
namespace {

// The values of RFC 3720, B.4.
TEST_CASE("CRC-32C is that of the RFC's examples") {
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62A8AB43);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  CHECK(crc32c(ascending) == 0x46DD794E);
  CHECK(crc32c("") == 0);
}

}  // namespace
}  // namespace fsdp
