#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

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

// What the library defines. Throws std::runtime_error with what is wrong with the file.
using OpenParquetRows = ParquetRows*(const char* file);
inline constexpr const char* kOpenParquetRows = "fsdp_open_parquet_rows";

// Throws ConfigError when the library is not there, or the file is damaged.
std::unique_ptr<ParquetRows> open_parquet_rows(const std::filesystem::path& file);

}  // namespace fsdp
