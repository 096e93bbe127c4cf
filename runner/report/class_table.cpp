#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/text/config_error.h"
#include "runner/answers/answers.h"
#include "runner/report/comparison.h"
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
  std::set<std::string> names;
  for (const RunRow& row : rows) names.insert(own_experiment(*row.run));
  if (names.size() > 1) {
    throw ConfigError(
        "--class", "",
        fmt::format("is of one experiment; allowed in front of it: {}", fmt::join(names, " or ")));
  }
  return names.empty() ? "" : *names.begin();
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
  std::vector<Person> persons;
  for (auto& [name, found] : by_name) persons.push_back(std::move(found));
  return persons;
}

// Returns the points in the order of the experiment, unless the reader chose another.
Points points_of(std::vector<RunRow> rows, bool is_sorted) {
  if (!is_sorted) {
    std::ranges::stable_sort(rows, {}, [](const RunRow& row) {
      return std::pair(row.run->position, row.run->family_value);
    });
  }
  Points points;
  for (const RunRow& row : rows) {
    if (std::ranges::find(points, row.run->point) == points.end()) points.push_back(row.run->point);
  }
  return points;
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
  std::vector<RunColumn> figures;
  for (const std::string& name : names) {
    figures.push_back(in_brief(find_column(columns(), name, "--class")));
  }
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

// Returns a block for each figure, with a row for each person.
std::vector<Block> blocks_of(const std::vector<Person>& persons, const Points& points,
                             const std::vector<RunColumn>& figures,
                             const std::set<const ComparisonRow*>& marked) {
  std::vector<Block> blocks;
  for (const RunColumn& figure : figures) {
    Block& block = blocks.emplace_back();
    if (figures.size() > 1) block.title = figure.heading_line();
    for (const Person& person : persons) {
      Row& row = block.rows.emplace_back();
      row.cells.emplace_back(person.name, person.name);
      for (const std::string& point : points) {
        row.cells.push_back(cell_of(person.row_at(point), figure, marked));
      }
    }
  }
  return blocks;
}

// Adds a column with the name of each block's figure. Programs see no titles of blocks.
void put_figures_column(Table& table, const std::vector<RunColumn>& figures) {
  table.columns.insert(table.columns.begin(),
                       Column{"figure", "", "The column that the row's figures are of.", true});
  for (size_t i = 0; i < figures.size(); ++i) {
    for (Row& row : table.blocks[i].rows) {
      row.cells.insert(row.cells.begin(), Cell(figures[i].name, ""));
    }
  }
}

size_t width_of(const Table& table, size_t number) {
  size_t width = 0;
  std::istringstream lines(table.columns[number].heading);
  for (std::string line; std::getline(lines, line);) width = std::max(width, display_width(line));
  for (const Block& block : table.blocks) {
    for (const Row& row : block.rows) {
      width = std::max(width, display_width(row.cells[number].text));
    }
  }
  return width;
}

// Returns the table with only these columns.
Table with_columns(const Table& table, const std::vector<size_t>& numbers) {
  Table part{.label = table.label};
  for (const size_t number : numbers) part.columns.push_back(table.columns[number]);
  for (const Block& block : table.blocks) {
    part.blocks.push_back({.title = block.title});
    for (const Row& row : block.rows) {
      Row& kept = part.blocks.back().rows.emplace_back();
      for (const size_t number : numbers) kept.cells.push_back(row.cells[number]);
    }
  }
  return part;
}

// Divides the columns into tables that fit the width, each with the names; 0: any width.
std::vector<Table> tables_of(const Table& table, size_t width) {
  if (width == 0) return {table};
  std::vector<std::vector<size_t>> parts{{0}};
  size_t used = width_of(table, 0);
  for (size_t number = 1; number < table.columns.size(); ++number) {
    const size_t own = kColumnGap + width_of(table, number);
    if (parts.back().size() > 1 && used + own > width) {
      parts.push_back({0});
      used = width_of(table, 0);
    }
    parts.back().push_back(number);
    used += own;
  }
  std::vector<Table> tables;
  for (const std::vector<size_t>& numbers : parts) tables.push_back(with_columns(table, numbers));
  tables.front().title = table.title;
  tables.back().warnings = table.warnings;
  tables.back().notes = table.notes;
  return tables;
}

// "bob misses 2 of 5: 4xDDP (failed), offload (not there)", for each person; a line if nobody does.
std::vector<std::string> lines_on_missing(const std::vector<Person>& persons,
                                          const Points& points) {
  std::vector<std::string> lines;
  for (const Person& person : persons) {
    if (person.rows.empty()) {
      lines.push_back(fmt::format("{} has none of it.", person.name));
      continue;
    }
    std::vector<std::string> missing;
    for (const std::string& point : points) {
      const RunRow* row = person.row_at(point);
      if (row != nullptr && has_result(*row)) continue;
      missing.push_back(
          fmt::format("{} ({})", point, row == nullptr ? "not there" : row->series->status_text()));
    }
    if (missing.empty()) continue;
    lines.push_back(fmt::format("{} misses {} of {}: {}.", person.name, missing.size(),
                                points.size(), joined_names(missing)));
  }
  if (lines.empty()) lines.push_back("Nobody misses a point.");
  return lines;
}

}  // namespace

std::string render_class(Format format, const Report& report, const std::vector<std::string>& names,
                         const std::set<std::string>& others) {
  const Comparison comparison = compare(Format::kCsv, report);
  const std::string experiment = require_one_experiment(comparison.rows);
  const std::vector<RunColumn> figures = figures_of(names, report.view.wide, comparison.rows);
  const DifferingRows differing = differing_rows(comparison.rows);
  const std::vector<Person> persons = persons_of(comparison.rows, others);
  const Points points = points_of(comparison.rows, !report.view.sort.empty());

  Table table{.title = experiment, .label = experiment};
  if (figures.size() == 1) table.title += ": " + figures.front().heading_line();
  table.columns = {Column{"source", "source", "Whose results they are.", true}};
  for (const std::string& point : points) {
    table.columns.push_back(Column{point, in_short_lines(point), "The point " + point + "."});
  }
  table.blocks = blocks_of(persons, points, figures, differing.runs);
  table.warnings = warnings_of(comparison);
  table.notes = lines_on_missing(persons, points);
  std::ranges::copy(differing.lines, std::back_inserter(table.notes));
  if (is_for_programs(format) && figures.size() > 1) put_figures_column(table, figures);
  std::string text;
  for (const Table& part : tables_of(table, format == Format::kTable ? report.width : 0)) {
    text += (text.empty() ? "" : "\n") + render(format, part, report);
  }
  return text;
}

}  // namespace fsdp
