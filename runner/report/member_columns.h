#pragma once

#include <concepts>
#include <vector>

#include "runner/report/columns.h"
#include "runner/store/summary.h"

// Columns that follow from the members of a struct: their names, types and meanings.
namespace fsdp {

template <typename T>
Value to_value(const T& member) {
  if constexpr (is_optional<T>) {
    return member ? to_value(*member) : Value();
  } else if constexpr (NamedEnum<T>) {
    return std::string(name_of(member));
  } else if constexpr (std::same_as<T, std::filesystem::path>) {
    return to_value(member.string());
  } else if constexpr (std::same_as<T, std::string>) {
    return member.empty() ? Value() : Value(member);
  } else {
    return member;
  }
}

template <typename Member>
inline constexpr Alignment alignment_of =
    std::is_arithmetic_v<Member> ? Alignment::kRight : Alignment::kLeft;
template <typename Member>
inline constexpr Alignment alignment_of<std::optional<Member>> = alignment_of<Member>;

// Returns the value of the member at position `place`.
template <Fields Row>
Value value_at(const Row& row, size_t place) {
  Value value;
  size_t at = 0;
  Row::visit_fields(row, [&](const char*, const auto& member, auto&&...) {
    if (at++ == place) value = to_value(member);
  });
  return value;
}

Column column_of(const char* name, Alignment alignment, const Meaning& meaning,
                 std::function<Value(const ReportRow&)> value);

// Returns a column for each member of the run or rank that has a meaning, in their order.
template <Fields Row>
std::vector<Column> member_columns(const Row* ReportRow::*owner) {
  std::vector<Column> columns;
  size_t places = 0;
  const Row none;
  Row::visit_fields(none, [&]<typename Member>([[maybe_unused]] const char* name, const Member&,
                                               const auto&... meaning) {
    const size_t place = places++;
    if constexpr (sizeof...(meaning) > 0) {
      columns.push_back(column_of(
          name, alignment_of<Member>, Meaning{meaning...},
          [owner, place](const ReportRow& row) { return value_at(*(row.*owner), place); }));
    }
  });
  return columns;
}

}  // namespace fsdp
