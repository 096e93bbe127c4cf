#include <algorithm>
#include <cctype>
#include <compare>
#include <string_view>

#include "contract/text/config_error.h"
#include "runner/report/columns.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

constexpr const char* kOption = "--where";

struct Operator {
  std::string_view name;
  bool (*holds)(std::partial_ordering) = nullptr;  // null: searches in a text

  bool is_equality() const { return name == "=" || name == "!="; }
};
constexpr Operator kOperators[] = {{"=", [](auto order) { return order == 0; }},
                                   {"!=", [](auto order) { return order != 0; }},
                                   {"<", [](auto order) { return order < 0; }},
                                   {"<=", [](auto order) { return order <= 0; }},
                                   {">", [](auto order) { return order > 0; }},
                                   {">=", [](auto order) { return order >= 0; }},
                                   {"~"}};

struct Condition {
  std::string text;
  const RunColumn* column = nullptr;
  Operator comparison{};
  std::string value{};

  [[noreturn]] void refuse(const std::string& problem) const {
    throw ConfigError(kOption, "", "'" + text + "' " + problem);
  }
  bool holds(const RunRow& row) const;
};

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

int lower_case(unsigned char c) { return std::tolower(c); }

Condition read_condition(const std::string& text, std::span<const RunColumn> columns) {
  Condition condition{.text = text};
  const size_t begin = text.find_first_of("=!<>~");
  if (begin == std::string::npos || begin == 0) {
    condition.refuse("is not COLUMN OP VALUE; OP is one of = != < <= > >= ~");
  }
  const bool has_equal_sign = begin + 1 < text.size() && text[begin + 1] == '=';
  const std::string name = text.substr(begin, has_equal_sign ? 2 : 1);
  const auto known = std::ranges::find(kOperators, name == "==" ? "=" : name, &Operator::name);
  if (known == std::end(kOperators)) {
    condition.refuse("has the operator '" + name + "'; allowed: = != < <= > >= ~");
  }
  condition.comparison = *known;
  const std::string column = trimmed(std::string_view(text).substr(0, begin));
  condition.column = &find_column(columns, column, kOption);
  condition.value = trimmed(std::string_view(text).substr(begin + name.size()));
  // A number after a heading has the heading's unit.
  const bool is_plain = condition.value.find_first_not_of("0123456789.+-e") == std::string::npos;
  const std::string heading = heading_meant(*condition.column, column);
  const std::string with_unit = condition.value + ' ' + heading.substr(heading.rfind(' ') + 1);
  if (is_plain && figure_from_text(with_unit, condition.column->name)) condition.value = with_unit;
  return condition;
}

bool Condition::holds(const RunRow& row) const {
  const Value figure = column->value(row);
  const bool is_absent = figure == Value();
  if (value.empty() && !comparison.is_equality()) {
    refuse("has no VALUE; without one only = (absent) and != (there) are allowed");
  }
  if (value.empty()) return is_absent == (comparison.name == "=");
  if (is_absent) return comparison.name == "!=";
  if (const std::optional<double> number = number_of(figure)) {
    const std::optional<double> wanted = figure_from_text(value, column->name);
    if (!wanted) {
      refuse("compares a number with '" + value + "'; VALUE is a number" +
             allowed_units(column->name));
    }
    if (!comparison.holds) refuse("uses ~ on a number; allowed: = != < <= > >=");
    return comparison.holds(*number <=> *wanted);
  }
  const std::string& words = std::get<std::string>(figure);
  if (!comparison.holds) {
    return !std::ranges::search(words, value, {}, lower_case, lower_case).empty();
  }
  if (!comparison.is_equality()) {
    refuse("asks for an order of text; allowed for '" + column->name + "': = != ~");
  }
  return comparison.holds(words <=> value);
}

bool stands_before(const Value& left, const Value& right, bool descending) {
  const auto kind = [](const Value& value) {
    return number_of(value) ? 0 : std::holds_alternative<std::string>(value) ? 1 : 2;
  };
  if (kind(left) != kind(right)) return kind(left) < kind(right);
  const Value& less = descending ? right : left;
  const Value& greater = descending ? left : right;
  return kind(left) == 0 ? number_of(less) < number_of(greater) : less < greater;
}

}  // namespace

void filter(std::vector<RunRow>& rows, const std::vector<std::string>& conditions,
            std::span<const RunColumn> columns) {
  std::vector<Condition> all;
  for (const std::string& text : conditions) all.push_back(read_condition(text, columns));
  std::erase_if(rows, [&](const RunRow& row) {
    return !std::ranges::all_of(all, [&](auto& condition) { return condition.holds(row); });
  });
}

void sort(std::vector<RunRow>& rows, std::string name, std::span<const RunColumn> columns) {
  if (name.empty()) return;
  const bool descending = name.starts_with('-');
  if (descending) name.erase(0, 1);
  const RunColumn& column = find_column(columns, name, "--sort");
  std::vector<std::pair<Value, RunRow>> keyed;
  for (const RunRow& row : rows) keyed.emplace_back(column.value(row), row);
  std::ranges::stable_sort(keyed, [&](auto& left, auto& right) {
    return stands_before(left.first, right.first, descending);
  });
  std::ranges::transform(keyed, rows.begin(), [](auto& pair) { return pair.second; });
}

}  // namespace fsdp
