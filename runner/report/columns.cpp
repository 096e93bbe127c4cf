// Chooses, filters and sorts by columns. Each option uses the same names.
#include "runner/report/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <compare>
#include <string_view>

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "base/text/white_space.h"
#include "contract/spec/yaml_value.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

void add_reference(std::string& text, std::span<const RunColumn> columns) {
  for (const RunColumn& column : columns) {
    const char mark = column.heading.empty() ? ' ' : column.is_shown_for ? '+' : '*';
    text += fmt::format("{} {}\n      {}\n", mark, column.name, column.documentation);
  }
}

// --- the brief table ---

enum class BriefWhen { kAlways, kUsual, kDiffers, kSeveralRows, kNotFinished };

struct BriefColumn {
  const char* name;
  BriefWhen when;
  const char* heading = nullptr;                 // null: the usual one
  std::string (*text)(const RunRow&) = nullptr;  // null: the usual one
};

std::string most_memory(const RunRow& row) {
  const std::string limit = too_little_memory(row);
  return limit.empty() ? gibibytes(row.run->memory_allocated_bytes_max) : limit;
}

// "fsdp+offload x4"
std::string strategy_and_ranks(const RunRow& row) {
  const std::string strategy = find_column(columns(), "strategy", "").text_for(row);
  if (row.run->spec.strategy.kind == StrategyKind::kSingle) return strategy;
  return fmt::format("{} x{}", strategy, row.run->spec.strategy.ranks);
}

std::string short_speed(const RunRow& row) {
  const std::optional<double>& speed = row.run->tokens_per_second;
  return speed ? short_number(*speed) : "-";
}

// "12 x 16"
std::string steps_and_batch(const RunRow& row) {
  const auto& steps = row.run->steps_planned ? row.run->steps_planned : row.run->steps;
  return steps ? fmt::format("{} x {}", *steps, row.run->spec.batch.total.value_or(0)) : "-";
}

std::string brief_loss(std::optional<double> loss, bool was_measured) {
  constexpr int kDecimals = 3;
  return loss ? decimals(*loss, kDecimals) : loss_text(loss, was_measured);
}

std::string last_loss(const RunRow& row) {
  return brief_loss(row.run->loss_last, row.run->has_losses()) + loss_mark(row);
}

std::string last_validation_loss(const RunRow& row) {
  return brief_loss(row.run->validation_loss_last, row.run->has_validation_losses());
}

constexpr BriefColumn kBriefColumns[] = {
    {"experiment", BriefWhen::kDiffers},
    {"source", BriefWhen::kUsual},
    {"point", BriefWhen::kAlways},
    {"repeats", BriefWhen::kUsual},
    {"strategy", BriefWhen::kDiffers, nullptr, strategy_and_ranks},
    {"memory_allocated_bytes_max", BriefWhen::kAlways, "memory\nGiB\na rank", most_memory},
    {"memory_allocated_ratio", BriefWhen::kSeveralRows},
    {"mfu_percent", BriefWhen::kUsual},
    {"tokens_per_second", BriefWhen::kAlways, nullptr, short_speed},
    {"tokens_per_second_ratio", BriefWhen::kSeveralRows},
    {"steps", BriefWhen::kDiffers, "steps\nx batch", steps_and_batch},
    {"loss_last", BriefWhen::kAlways, nullptr, last_loss},
    {"validation_loss_last", BriefWhen::kUsual, "validation\nloss", last_validation_loss},
    {"status", BriefWhen::kNotFinished}};

// Returns the column's text without " %".
std::function<std::string(const RunRow&)> without_unit(const RunColumn& column) {
  return [column](const RunRow& row) {
    std::string text = column.text_for(row);
    if (const size_t unit = text.find(" %"); unit != std::string::npos) text.erase(unit, 2);
    return text;
  };
}

bool is_shown(BriefWhen when, const RunColumn& column, std::span<const RunRow> rows) {
  const auto differs_from = [&](std::string_view text) {
    return [&column, text](const RunRow& row) { return column.text_for(row) != text; };
  };
  switch (when) {
    case BriefWhen::kAlways:
      return true;
    case BriefWhen::kUsual:
      return column.is_shown_for && column.is_shown_for_any(rows);
    case BriefWhen::kDiffers:
      return !rows.empty() &&
             std::ranges::any_of(rows, differs_from(column.text_for(rows.front())));
    case BriefWhen::kSeveralRows:
      return rows.size() > 1;
    case BriefWhen::kNotFinished:  // the memory tells that a row is out of memory
      return std::ranges::any_of(rows, [&](const RunRow& row) {
        return column.text_for(row) != name_of(RunStatus::kFinished) &&
               !too_little_memory(row).starts_with('>');
      });
  }
  return true;
}

// Drops columns in their drop order until kMostBriefColumns are left.
void keep_most_important(std::vector<RunColumn>& columns) {
  while (columns.size() > kMostBriefColumns) {
    const auto first = std::ranges::min_element(columns, {}, [](const RunColumn& column) {
      return std::pair(column.drop_order == 0, column.drop_order);
    });
    if (first->drop_order == 0) return;
    columns.erase(first);
  }
}

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
  const std::string column(stripped(std::string_view(text).substr(0, begin)));
  condition.column = &find_column(columns, column, kOption);
  condition.value = stripped(std::string_view(text).substr(begin + name.size()));
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
    refuse("has no VALUE; allowed without a VALUE: = (the figure is absent), != (it is present)");
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
    refuse("uses " + std::string(comparison.name) + " on text; allowed for '" + column->name +
           "': = != ~");
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

std::string RunColumn::text_for(const RunRow& row) const {
  return text ? text(row) : text_of(value(row), name);
}

bool RunColumn::is_shown_for_any(std::span<const RunRow> rows) const {
  return !is_shown_for || std::ranges::any_of(rows, is_shown_for);
}

std::string heading_meant(const RunColumn& column, const std::string& name) {
  constexpr std::string_view kOfARank = " a rank";
  for (const auto& shown : {with_heading, in_brief}) {
    std::string heading = shown(column).heading_line();
    if (heading.ends_with(kOfARank)) heading.resize(heading.size() - kOfARank.size());
    if (heading == name) return heading;
    const size_t space = heading.rfind(' ');
    if (space == std::string::npos || heading.substr(0, space) != name) continue;
    const std::string unit = heading.substr(space);
    if (unit == " %" || figure_from_text("1" + unit, column.name)) return heading;
  }
  return "";
}

const RunColumn& find_column(std::span<const RunColumn> columns, const std::string& name,
                             const std::string& option) {
  std::vector<std::string> names;
  for (const std::span<const RunColumn> among : {columns, key_columns()}) {
    const auto found = std::ranges::find(among, name, &RunColumn::name);
    if (found != among.end()) return *found;
    std::ranges::transform(among, std::back_inserter(names), &RunColumn::name);
  }
  const auto headed = std::ranges::find_if(
      columns, [&](const RunColumn& column) { return !heading_meant(column, name).empty(); });
  if (headed != columns.end()) return *headed;
  throw ConfigError(option, "",
                    "there is no column '" + name +
                        "'; `fsdp-run report --columns help` lists them" + suggestion(name, names));
}

RunColumn with_heading(RunColumn column) {
  if (column.heading.empty()) column.heading = heading_from_name(column.name);
  return column;
}

RunColumn in_brief(RunColumn column) {
  column = with_heading(std::move(column));
  const auto* brief = std::ranges::find(kBriefColumns, column.name, &BriefColumn::name);
  if (brief == std::end(kBriefColumns)) return column;
  if (brief->heading) column.heading = brief->heading;
  if (brief->text) column.text = brief->text;
  return column;
}

std::string percent_heading(std::span<const RunRow> rows) {
  constexpr size_t kWidth = 8;
  const auto baselines = distinct(mapped(rows, [](auto& row) { return row.series->baseline; }));
  const bool is_one = baselines.size() == 1 && baselines.front() != nullptr;
  const std::string name = is_one ? visible_line(baselines.front()->name) : "";
  return "% of\n" + (name.empty() || display_width(name) > kWidth ? "baseline" : name);
}

std::vector<RunColumn> brief_columns(std::span<const RunRow> rows, std::span<const RunColumn> all) {
  std::vector<RunColumn> columns;
  for (const BriefColumn& brief : kBriefColumns) {
    const RunColumn& column = *std::ranges::find(all, brief.name, &RunColumn::name);
    RunColumn brief_column = in_brief(column);
    if (!is_shown(brief.when, brief_column, rows)) continue;
    if (column.name.ends_with("_ratio")) {
      brief_column.heading = percent_heading(rows);
      brief_column.text = without_unit(brief_column);
    }
    columns.push_back(std::move(brief_column));
  }
  keep_most_important(columns);
  return columns;
}

std::string too_little_memory(const RunRow& row) {
  const ComparisonRow& run = *row.run;
  const bool is_measured = row.is_series() && row.series->finished_count > 0;
  if (run.status != RunStatus::kOutOfMemory || is_measured) return "";
  const std::optional<double> limit = run.exceeded_limit_bytes();
  return limit ? "> " + gibibytes(limit) : "-";
}

std::string columns_reference() {
  std::string text =
      "All columns, in the order of csv, json, jsonl and parquet. The other formats show with\n"
      "--wide those marked *, and those marked + if a row has a value for them. Figures of a\n"
      "series are medians over its repeats. A column's heading is accepted, too. Every key that\n"
      "`fsdp-run schema` lists is also a column: --columns +optimizer.learning_rate\n\n";
  add_reference(text, columns());
  text += "\nWith --per-rank:\n\n";
  add_reference(text, rank_columns());
  return text;
}

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
