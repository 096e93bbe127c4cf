#include "runner/report/conditions.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "contract/text/config_error.h"
#include "runner/report/number_text.h"

namespace fsdp {
namespace {

constexpr const char* kOption = "--where";
// In the order of Condition::Operator.
constexpr std::array<std::string_view, 7> kOperators = {"=", "!=", "<", "<=", ">", ">=", "~"};

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

Condition::Condition(const std::string& text, std::span<const Column> columns) : text_(text) {
  const size_t begin = text.find_first_of("=!<>~");
  if (begin == std::string::npos || begin == 0) {
    refuse("is not COLUMN OP VALUE; OP is one of = != < <= > >= ~");
  }
  const bool has_equal_sign = begin + 1 < text.size() && text[begin + 1] == '=';
  const std::string name = text.substr(begin, has_equal_sign ? 2 : 1);
  const auto known = std::ranges::find(kOperators, name == "==" ? "=" : name);
  if (known == kOperators.end()) {
    refuse("has the operator '" + name + "'; allowed: = != < <= > >= ~");
  }
  operator_ = static_cast<Operator>(known - kOperators.begin());
  const std::string column = trimmed(std::string_view(text).substr(0, begin));
  column_ = &find_column(columns, column, kOption);
  value_ = trimmed(std::string_view(text).substr(begin + name.size()));
  // Whoever writes the heading means its unit.
  const bool is_plain = value_.find_first_not_of("0123456789.+-e") == std::string::npos;
  const std::string with_unit = value_ + ' ' + column.substr(column.rfind(' ') + 1);
  if (is_plain && figure_from_text(with_unit, column_->name)) value_ = with_unit;
}

void Condition::refuse(const std::string& problem) const {
  throw ConfigError(kOption, "", "'" + text_ + "' " + problem);
}

template <typename T>
bool Condition::compare(const T& left, const T& right) const {
  switch (operator_) {
    case Operator::kEqual:
      return left == right;
    case Operator::kNotEqual:
      return left != right;
    case Operator::kLess:
      return left < right;
    case Operator::kLessEqual:
      return left <= right;
    case Operator::kGreater:
      return left > right;
    case Operator::kGreaterEqual:
      return left >= right;
    case Operator::kHolds:
      break;
  }
  throw std::logic_error("an operator without a comparison");
}

bool Condition::holds(const ReportRow& row) const {
  const Value value = column_->value(row);
  const bool is_absent = std::holds_alternative<std::monostate>(value);
  if (value_.empty()) {
    if (operator_ == Operator::kEqual) return is_absent;
    if (operator_ == Operator::kNotEqual) return !is_absent;
    refuse("has no VALUE; without one only = (absent) and != (there) are allowed");
  }
  if (is_absent) return operator_ == Operator::kNotEqual;
  if (const std::optional<double> number = number_of(value)) {
    const std::optional<double> wanted = figure_from_text(value_, column_->name);
    if (!wanted) {
      refuse("compares a number with '" + value_ + "'; VALUE is a number" +
             allowed_units(column_->name));
    }
    if (operator_ == Operator::kHolds) refuse("uses ~ on a number; allowed: = != < <= > >=");
    return compare(*number, *wanted);
  }
  const std::string& words = std::get<std::string>(value);
  if (operator_ == Operator::kHolds) {
    return lower_case(words).find(lower_case(value_)) != std::string::npos;
  }
  if (operator_ != Operator::kEqual && operator_ != Operator::kNotEqual) {
    refuse("asks for an order of text; allowed for '" + column_->name + "': = != ~");
  }
  return compare(words, value_);
}

bool stands_before(const Value& left, const Value& right, bool descending) {
  const bool left_absent = std::holds_alternative<std::monostate>(left);
  const bool right_absent = std::holds_alternative<std::monostate>(right);
  if (left_absent || right_absent) return !left_absent && right_absent;
  const std::optional<double> left_number = number_of(left);
  const std::optional<double> right_number = number_of(right);
  if (left_number && right_number) {
    return descending ? *left_number > *right_number : *left_number < *right_number;
  }
  if (left_number.has_value() != right_number.has_value()) return left_number.has_value();
  const std::string& left_words = std::get<std::string>(left);
  const std::string& right_words = std::get<std::string>(right);
  return descending ? left_words > right_words : left_words < right_words;
}

}  // namespace fsdp
