#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/files/input_file.h"

namespace fsdp {

// The rows of a Parquet file, in order. The library lib/libfsdp-parquet.so beside the program
// (formats/parquet/) reads them, so neither program links Apache Arrow. Not thread-safe.
class ParquetRows {
 public:
  virtual ~ParquetRows() = default;

  virtual int64_t count() const = 0;
  // Writes the next row as a JSON object. Text, lists, structs and nulls keep their form; other
  // values become {}. False at the end. Throws std::runtime_error, with the problem, for a damaged
  // file.
  virtual bool next(std::string& json) = 0;
};

// The function that the library exports. It takes ownership of the descriptor, even if it throws.
// Throws std::runtime_error, with the problem, if the file is damaged.
using OpenParquetRows = ParquetRows*(int descriptor);
inline constexpr const char* kOpenParquetRows = "fsdp_open_parquet_rows";

// Opens the rows of an open file. Throws ConfigError if the library is missing or the file is
// damaged.
std::unique_ptr<ParquetRows> open_parquet_rows(const InputFile& file);

}  // namespace fsdp
