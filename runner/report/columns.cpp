#include "runner/report/columns.h"

#include <algorithm>
#include <cmath>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/report/column_values.h"
#include "runner/report/figures.h"

namespace fsdp {
namespace {

constexpr size_t kHeadingWidth = 12;

// What people read instead of the unit in a name; the name's own unit is left out of the heading.
struct ShownUnit {
  std::string_view in_name;
  std::string_view shown;
};
constexpr ShownUnit kShownUnits[] = {
    {"bytes", "GiB"}, {"ms", "ms"}, {"gib", "GiB"}, {"percent", "%"}, {"joules", "J"}};

// "memory_allocated_bytes_forward_max" -> "memory\nallocated\nforward max\nGiB".
std::string heading_from_name(std::string_view name) {
  std::string heading;
  std::string_view unit;
  size_t line_begin = 0;
  while (!name.empty()) {
    const size_t end = std::min(name.find('_'), name.size());
    const std::string_view word = name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
    const auto known = std::ranges::find(kShownUnits, word, &ShownUnit::in_name);
    if (known != std::end(kShownUnits)) {
      unit = known->shown;
      continue;
    }
    if (heading.size() - line_begin + word.size() >= kHeadingWidth) {
      heading += '\n';
      line_begin = heading.size();
    } else if (!heading.empty()) {
      heading += ' ';
    }
    heading += word;
  }
  return unit.empty() ? heading : heading + '\n' + std::string(unit);
}

std::string text_for_people(const Value& value, std::string_view name) {
  const bool is_bytes = name.find("_bytes") != std::string_view::npos;
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return is_bytes ? gibibytes(*integer) : std::to_string(*integer);
  }
  if (const auto* real = std::get_if<double>(&value))
    return three_digits(is_bytes ? *real / 0x1p30 : *real);
  if (const auto* words = std::get_if<std::string>(&value)) return *words;
  return "-";
}

void add_reference(std::string& text, std::span<const Column> columns) {
  for (const Column& column : columns) {
    const char mark = column.heading.empty() ? ' ' : column.is_shown_for ? '+' : '*';
    text += std::string(1, mark) + ' ' + column.name + "\n      " + column.documentation + '\n';
  }
}

}  // namespace

std::optional<double> number_of(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

std::span<const Column> columns() {
  static const std::vector<Column> all = [] {
    std::vector<Column> columns;
    for (const std::vector<Column>& part :
         {setting_columns(), provenance_columns(), figure_columns(), outcome_columns()}) {
      columns.insert(columns.end(), part.begin(), part.end());
    }
    return columns;
  }();
  return all;
}

std::string printed_heading(const Column& column) {
  std::string heading = column.heading;
  std::ranges::replace(heading, '\n', ' ');
  return heading;
}

const Column& find_column(std::span<const Column> columns, const std::string& name,
                          const std::string& option) {
  for (const std::span<const Column> among : {columns, key_columns()}) {
    const auto found = std::ranges::find(among, name, &Column::name);
    if (found != among.end()) return *found;
  }
  const auto headed = std::ranges::find(columns, name, printed_heading);
  if (headed != columns.end()) return *headed;
  std::vector<std::string> names;
  for (const Column& column : columns) names.push_back(column.name);
  for (const Column& column : key_columns()) names.push_back(column.name);
  throw ConfigError(option, "",
                    "there is no column '" + name +
                        "'; `fsdp-run report --columns help` lists them" + suggestion(name, names));
}

Column with_heading(Column column) {
  if (column.heading.empty()) {
    std::string words = column.name;
    std::ranges::replace(words, '.', '_');
    column.heading = heading_from_name(words);
  }
  if (!column.text) {
    column.text = [value = column.value, name = column.name](const ReportRow& row) {
      return text_for_people(value(row), name);
    };
  }
  return column;
}

std::string columns_reference() {
  std::string text =
      "Columns, in the order of csv and json, which have them all. Tables for people show those\n"
      "marked *, and those marked + where a row has something for them. Figures of a series are\n"
      "medians over its repeats. A column may be called by its heading too. Every key that\n"
      "`fsdp-run schema` lists is a column as well: --columns +optimizer.learning_rate\n\n";
  add_reference(text, columns());
  text += "\nWith --per-rank:\n\n";
  add_reference(text, rank_columns());
  return text;
}

}  // namespace fsdp
