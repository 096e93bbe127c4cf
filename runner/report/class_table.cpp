#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/text/config_error.h"
#include "runner/answers/answers.h"
#include "runner/report/columns.h"
#include "runner/table/names.h"
#include "runner/table/terminal_text.h"

// The merged results of a class.
namespace fsdp {
namespace {

using Points = std::vector<std::string>;

struct Person {
  std::string name{};
  std::map<std::string, RunRow> rows{};  // by point

  // Null: the person did not start the point.
  const RunRow* row_at(const std::string& point) const {
    const auto found = rows.find(point);
    return found == rows.end() ? nullptr : &found->second;
  }
};

std::string require_one_experiment(const std::vector<RunRow>& rows) {
  const auto names = distinct(mapped(rows, [](auto& row) { return own_experiment(*row.run); }));
  if (names.size() > 1) {
    throw ConfigError("--class", "",
                      fmt::format("shows one experiment at a time; allowed before --class: {}",
                                  fmt::join(names, " or ")));
  }
  return names.empty() ? "" : names.front();
}

std::vector<Person> persons_of(const std::vector<RunRow>& rows,
                               const std::set<std::string>& others) {
  std::map<std::string, Person> by_name;
  for (const std::string& name : others) by_name[name].name = name;
  for (const RunRow& row : rows) {
    Person& person = by_name[row.run->source];
    person.name = person_of(*row.run);
    person.rows.emplace(row.run->point, row);
  }
  return mapped(by_name, [](const auto& person) { return person.second; });
}

// Returns the points in the order of the experiment, unless the reader chose another.
Points points_of(std::vector<RunRow> rows, bool is_sorted) {
  if (!is_sorted) {
    std::ranges::stable_sort(rows, {}, [](const RunRow& row) {
      return std::pair(row.run->position, row.run->family_value);
    });
  }
  return distinct(mapped(rows, [](const RunRow& row) { return row.run->point; }));
}

// "FSDP,\nbatch 8"
std::string in_short_lines(const std::string& name) {
  constexpr size_t kHeadingWidth = 12;
  std::string text = wrapped("", name, 0, kHeadingWidth);
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

// Returns the requested columns. A wide report adds every usual column that a row has.
std::vector<RunColumn> figures_of(const std::vector<std::string>& names, bool is_wide,
                                  const std::vector<RunRow>& rows) {
  std::vector<RunColumn> figures =
      mapped(names, [](auto& name) { return in_brief(find_column(columns(), name, "--class")); });
  if (!is_wide) return figures;
  for (const RunColumn& column : columns()) {
    const bool is_place = column.name == "point" || column.name == "source";
    const bool is_usual = !column.heading.empty() && !is_place && column.is_shown_for_any(rows);
    const bool is_new = std::ranges::find(figures, column.name, &RunColumn::name) == figures.end();
    if (is_usual && is_new) figures.push_back(column);
  }
  return figures;
}

// Returns a person's figure of a point. `marked` are the rows that differ from most others.
Cell cell_of(const RunRow* row, const RunColumn& figure,
             const std::set<const ComparisonRow*>& marked) {
  if (row == nullptr) return {Value(), "-"};
  const bool was_measured = row->series->finished_count > 0;
  return {was_measured ? figure.value(*row) : Value(),
          (marked.contains(row->run) ? "*" : "") +
              (was_measured ? figure.text_for(*row) : row->series->status_text())};
}

// Returns a block for each figure, with a row for each person. Programs, which see no titles of
// blocks, get a cell with the figure's name.
std::vector<Block> blocks_of(const std::vector<Person>& persons, const Points& points,
                             const std::vector<RunColumn>& figures,
                             const std::set<const ComparisonRow*>& marked, bool are_named) {
  std::vector<Block> blocks;
  for (const RunColumn& figure : figures) {
    Block& block = blocks.emplace_back();
    if (figures.size() > 1) block.title = figure.heading_line();
    for (const Person& person : persons) {
      std::vector<Cell>& cells = block.rows.emplace_back().cells;
      if (are_named) cells.emplace_back(figure.name, "");
      cells.emplace_back(person.name, person.name);
      for (const std::string& point : points) {
        cells.push_back(cell_of(person.row_at(point), figure, marked));
      }
    }
  }
  return blocks;
}

// "bob has no result for 2 of 5 points: 4xDDP (failed), offload (not in the list)", for each person
// who misses a point; else one line that says that nobody does.
std::vector<std::string> lines_on_missing(const std::vector<Person>& persons,
                                          const Points& points) {
  std::vector<std::string> lines;
  for (const Person& person : persons) {
    if (person.rows.empty()) {
      lines.push_back(fmt::format("{} has no runs in this table.", person.name));
      continue;
    }
    std::vector<std::string> missing;
    for (const std::string& point : points) {
      const RunRow* row = person.row_at(point);
      if (row != nullptr && has_result(*row)) continue;
      missing.push_back(fmt::format(
          "{} ({})", point, row == nullptr ? "not in the list" : row->series->status_text()));
    }
    if (missing.empty()) continue;
    lines.push_back(fmt::format("{} has no result for {} of {} points: {}.", person.name,
                                missing.size(), points.size(), joined_names(missing)));
  }
  if (lines.empty()) lines.push_back("Everybody has a result for every point.");
  return lines;
}

}  // namespace

std::string render_class(Format format, const Report& report, const std::vector<std::string>& names,
                         const std::set<std::string>& others) {
  const ReportRows comparison = compare(RowKind::kSeries, report);
  const std::string experiment = require_one_experiment(comparison.rows);
  const std::vector<RunColumn> figures = figures_of(names, report.view.wide, comparison.rows);
  const DifferingRows differing = differing_rows(comparison.rows);
  const std::vector<Person> persons = persons_of(comparison.rows, others);
  const Points points = points_of(comparison.rows, !report.view.sort.empty());

  Table table{.title = experiment, .label = experiment};
  if (figures.size() == 1) table.title += ": " + figures.front().heading_line();
  const bool are_named = is_for_programs(format) && figures.size() > 1;
  if (are_named) {
    table.columns.push_back({"figure", "", "The name of the figure that the row shows.", true});
  }
  table.columns.push_back({"source", "source", "The person whose results the row shows.", true});
  for (const std::string& point : points) {
    table.columns.push_back(Column{point, in_short_lines(point), "The point " + point + "."});
  }
  table.blocks = blocks_of(persons, points, figures, differing.runs, are_named);
  table.warnings = warnings_of(comparison);
  table.notes = lines_on_missing(persons, points);
  std::ranges::copy(differing.lines, std::back_inserter(table.notes));
  std::string text;
  const size_t width = format == Format::kTable ? report.width : 0;
  const auto fit = [&](const ColumnNumbers& columns) {
    return width == 0 || lay_out(with_columns(table, columns), {}).rule.size() <= width;
  };
  for (const Table& part : divided(table, fit)) {
    text += (text.empty() ? "" : "\n") + render(format, part, report);
  }
  return text;
}

}  // namespace fsdp
