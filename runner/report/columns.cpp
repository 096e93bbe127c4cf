#include "runner/report/columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/report/brief_columns.h"
#include "runner/report/member_columns.h"
#include "runner/report/number_text.h"

namespace fsdp {
namespace {

constexpr size_t kHeadingWidth = 12;
constexpr double kJoulesPerKilojoule = 1'000;

// The unit that people see instead of the unit in the name. The heading leaves out the latter.
struct ShownUnit {
  std::string_view in_name;
  std::string_view shown;
};
constexpr ShownUnit kShownUnits[] = {
    {"bytes", "GiB"}, {"ms", "ms"}, {"gib", "GiB"}, {"percent", "%"}, {"joules", "kJ"}};
constexpr std::string_view kTotalTime = "_time_ms";  // names that end so are shown as 2 h 03 min

// "memory_allocated_bytes_forward_max" -> "memory\nallocated\nforward max\nGiB".
std::string heading_from_name(std::string_view name) {
  std::string heading;
  std::string_view unit;
  size_t line_begin = 0;
  if (name.ends_with(kTotalTime)) name.remove_suffix(std::string_view("_ms").size());
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of("_."), name.size());
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
  if (const auto* words = std::get_if<std::string>(&value)) return *words;
  const std::optional<double> number = number_of(value);
  if (!number) return "-";
  if (name.ends_with(kTotalTime)) return duration(number);
  if (name.find("_bytes") != std::string_view::npos) return gibibytes(number);
  if (name.ends_with("_joules")) return three_digits(*number / kJoulesPerKilojoule);
  const auto* integer = std::get_if<int64_t>(&value);
  return integer != nullptr ? std::to_string(*integer) : three_digits(*number);
}

void add_reference(std::string& text, std::span<const Column> columns) {
  for (const Column& column : columns) {
    const char mark = column.heading.empty() ? ' ' : column.is_shown_for ? '+' : '*';
    text += fmt::format("{} {}\n      {}\n", mark, column.name, column.documentation);
  }
}

}  // namespace

std::optional<double> number_of(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

Column column_of(const char* name, Alignment alignment, const Meaning& meaning,
                 std::function<Value(const ReportRow&)> value) {
  Column column{name, meaning.heading, meaning.sentence, alignment, std::move(value)};
  if (meaning.better == Better::kLess) column.documentation += " Less is better.";
  if (meaning.better == Better::kMore) column.documentation += " More is better.";
  if (meaning.shown == Shown::kWhereKnown) {
    column.is_shown_for = [value = column.value](const ReportRow& row) {
      return value(row) != Value();
    };
  }
  return column;
}

std::string text_of(const Column& column, const ReportRow& row) {
  return column.text ? column.text(row) : text_for_people(column.value(row), column.name);
}

std::string printed_heading(const Column& column) {
  std::string heading = column.heading;
  std::ranges::replace(heading, '\n', ' ');
  return heading;
}

std::string heading_meant(const Column& column, const std::string& name) {
  for (const auto& shown : {with_heading, in_brief}) {
    const std::string heading = printed_heading(shown(column));
    if (heading == name) return heading;
    const size_t space = heading.rfind(' ');
    if (space == std::string::npos || heading.substr(0, space) != name) continue;
    const std::string unit = heading.substr(space);
    if (unit == " %" || figure_from_text("1" + unit, column.name)) return heading;
  }
  return "";
}

const Column& find_column(std::span<const Column> columns, const std::string& name,
                          const std::string& option) {
  std::vector<std::string> names;
  for (const std::span<const Column> among : {columns, key_columns()}) {
    const auto found = std::ranges::find(among, name, &Column::name);
    if (found != among.end()) return *found;
    std::ranges::transform(among, std::back_inserter(names), &Column::name);
  }
  const auto headed = std::ranges::find_if(
      columns, [&](const Column& column) { return !heading_meant(column, name).empty(); });
  if (headed != columns.end()) return *headed;
  throw ConfigError(option, "",
                    "there is no column '" + name +
                        "'; `fsdp-run report --columns help` lists them" + suggestion(name, names));
}

Column with_heading(Column column) {
  if (column.heading.empty()) column.heading = heading_from_name(column.name);
  return column;
}

std::string too_little_memory(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  const bool is_measured = row.is_series && row.series->finished_count > 0;
  if (run.status != RunStatus::kOutOfMemory || is_measured) return "";
  const std::optional<double> limit = run.exceeded_limit_bytes();
  return limit ? "> " + gibibytes(limit) : "-";
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
