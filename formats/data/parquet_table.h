#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
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

// monostate: absent.
using ParquetValue = std::variant<std::monostate, bool, int64_t, double, std::string_view>;

// Returns the value of a struct's member, which must outlive the result. An empty text is absent.
template <typename T>
ParquetValue parquet_value(const T& member) {
  if constexpr (is_optional<T>) {
    return member ? parquet_value(*member) : ParquetValue();
  } else if constexpr (is_variant<T>) {
    return std::visit([](const auto& held) { return parquet_value(held); }, member);
  } else if constexpr (NamedEnum<T>) {
    return name_of(member);
  } else if constexpr (std::same_as<T, std::filesystem::path>) {
    return parquet_value(member.native());
  } else if constexpr (std::same_as<T, std::string>) {
    return member.empty() ? ParquetValue() : ParquetValue(member);
  } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    return static_cast<int64_t>(member);
  } else {
    return member;
  }
}

// A Parquet file that is written row by row. Memory hardly grows with the rows. The library
// lib/libfsdp-parquet.so beside the program (formats/parquet/) writes it. Not thread-safe.
class ParquetTable {
 public:
  virtual ~ParquetTable() = default;

  // Adds the next value of the row; the value of the last column ends the row. The value has the
  // column's type; a column of reals also takes integers. A real that is not finite becomes absent,
  // as in JSON. Throws what the file's WriteBytes throws.
  virtual void add(const ParquetValue& value) = 0;
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
