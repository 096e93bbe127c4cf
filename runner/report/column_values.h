#pragma once

#include <concepts>
#include <vector>

#include "runner/report/columns.h"

// What the tables of columns are written with.
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

// The values of a member of the run or of the rank.
template <typename T, typename Owner>
auto of(T Owner::*member) {
  return [member](const ReportRow& row) {
    if constexpr (std::derived_from<ComparisonRow, Owner>) {
      return to_value(row.run->*member);
    } else {
      return to_value(row.rank->*member);
    }
  };
}

// Whether the run's experiment compares by throughput.
inline bool is_about_throughput(const ReportRow& row) { return row.run->compare == "throughput"; }

// "fsdp", "fsdp shard_grad_op", "ddp+offload", "fsdp+offload parameters".
std::string strategy_text(const ReportRow& row);

// The parts of columns().
std::vector<Column> setting_columns();     // what a run is
std::vector<Column> provenance_columns();  // where its figures come from
std::vector<Column> figure_columns();      // what was measured
std::vector<Column> outcome_columns();     // losses, and how it ended

}  // namespace fsdp
