#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "contract/files/input_file.h"

namespace fsdp {

// The rows of a Parquet file, in their order. Made by the library lib/libfsdp-parquet.so beside the
// program (contract/parquet/), so that neither program needs Apache Arrow. Not thread-safe.
class ParquetRows {
 public:
  virtual ~ParquetRows() = default;

  virtual int64_t count() const = 0;
  // Writes the next row as an object of JSON: text, lists and structs as they are, and {} for all
  // else. False at the end. Throws std::runtime_error with what is wrong with the file.
  virtual bool next(std::string& json) = 0;
};

// What the library defines. It takes over the descriptor, also when it throws std::runtime_error
// with what is wrong with the file.
using OpenParquetRows = ParquetRows*(int descriptor);
inline constexpr const char* kOpenParquetRows = "fsdp_open_parquet_rows";

// The rows of an open file. Throws ConfigError when the library is not there, or the file is
// damaged.
std::unique_ptr<ParquetRows> open_parquet_rows(const InputFile& file);

}  // namespace fsdp
