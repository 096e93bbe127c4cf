#pragma once

#include <parquet/exception.h>

#include <stdexcept>

namespace fsdp {

// Runs `call`. Turns Parquet's exceptions, which are unknown outside of this library, into
// std::runtime_error.
template <typename Call>
auto with_standard_errors(Call call) {
  try {
    return call();
  } catch (const parquet::ParquetException& error) {
    throw std::runtime_error(error.what());
  }
}

}  // namespace fsdp
