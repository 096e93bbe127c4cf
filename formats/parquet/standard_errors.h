#pragma once

#include <arrow/result.h>
#include <parquet/exception.h>

#include <stdexcept>
#include <utility>

namespace fsdp {

inline void check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <typename T>
T value_or_throw(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

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
