#pragma once

#include <string>

#include "runner/report/columns.h"

// Which rows are shown, and in which order. Every mistake is a ConfigError.
namespace fsdp {

// "COLUMN OP VALUE" with OP one of = != < <= > >= ~, for instance "ranks >= 4",
// "memory_allocated_bytes_max < 40 GiB", "point ~ fsdp", "loss_last =".
//
// A column of numbers is compared with a number, of which bytes may have a unit (KiB, MiB, GiB) and
// times too (ms, s, min, h). Text is compared by = and != as it is, and by ~ (holds VALUE, upper
// and lower case alike). Without VALUE, = and != ask whether the figure is absent; apart from that
// an absent figure meets != only.
class Condition {
 public:
  Condition(const std::string& text, std::span<const Column> columns);

  // Throws ConfigError when the row's figure is a number and VALUE or the operator are not for
  // numbers, or the other way round.
  bool holds(const ReportRow& row) const;

 private:
  enum class Operator { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kHolds };

  template <typename T>
  bool compare(const T& left, const T& right) const;
  [[noreturn]] void refuse(const std::string& problem) const;

  std::string text_;
  const Column* column_ = nullptr;
  Operator operator_ = Operator::kEqual;
  std::string value_;
};

// Whether `left` is shown above `right`. Numbers stand before text, and what is absent is last, in
// both directions.
bool stands_before(const Value& left, const Value& right, bool descending);

}  // namespace fsdp
