#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/fields.h"

// Writes tables as Parquet.
namespace fsdp {

// The type of a table's column. Values of every type may be absent.
enum class ColumnType { kText, kReal, kInteger, kBool };

// Returns the type of a column with a struct's members.
template <typename T>
constexpr ColumnType column_type() {
  if constexpr (is_optional<T>) {
    return column_type<typename T::value_type>();
  } else if constexpr (std::same_as<T, bool>) {
    return ColumnType::kBool;
  } else if constexpr (std::integral<T>) {
    return ColumnType::kInteger;
  } else {
    return std::floating_point<T> ? ColumnType::kReal : ColumnType::kText;
  }
}

struct ParquetColumn {
  std::string name;
  ColumnType type = ColumnType::kText;
};

// A Parquet file that is written row by row. Memory hardly grows with the rows. The library
// lib/libfsdp-parquet.so beside the program (formats/parquet/) writes it. Not thread-safe.
class ParquetTable {
 public:
  virtual ~ParquetTable() = default;

  // Adds a row, the text of a JsonObject. Its members have their columns' types; null and an empty
  // text are absent. Throws what the file's WriteBytes throws.
  virtual void add(std::string row) = 0;
  // Writes the rest of the file. Throws what the file's WriteBytes throws.
  virtual void close() = 0;
};

// Takes the bytes of a file in their order.
using WriteBytes = std::function<void(std::string_view)>;

// The function that the library exports.
using NewParquetTable = ParquetTable*(const std::vector<ParquetColumn>& columns, WriteBytes write);
inline constexpr const char* kNewParquetTable = "fsdp_new_parquet_table";

// Begins a file. Throws ConfigError if the library is missing.
std::unique_ptr<ParquetTable> new_parquet_table(const std::vector<ParquetColumn>& columns,
                                                WriteBytes write);

}  // namespace fsdp
