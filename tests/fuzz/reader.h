#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/text/config_error.h"

namespace fsdp {

// Gives a fuzzer's input to a reader of bytes, which may throw only a ConfigError.
template <typename Read>
int fuzz_reader(const uint8_t* data, size_t size, Read read) {
  try {
    read(std::as_bytes(std::span(data, size)));
  } catch (const ConfigError&) {
  }
  return 0;
}

}  // namespace fsdp
