#include "runner/report/class_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "contract/text/config_error.h"
#include "runner/report/brief_columns.h"
#include "runner/report/differing_rows.h"
#include "runner/report/formats.h"
#include "runner/report/names.h"
#include "runner/report/terminal_text.h"
#include "runner/report/text_table.h"

namespace fsdp {

// One figure of all rows of a person.
struct Person {
  std::string name;
  std::map<std::string, ReportRow> rows{};  // by point
  const Column* figure = nullptr;
};

namespace {

std::string require_one_experiment(const std::vector<ReportRow>& rows) {
  std::set<std::string> names;
  for (const ReportRow& row : rows) names.insert(own_experiment(*row.run));
  if (names.size() > 1) {
    throw ConfigError(
        "--class", "",
        fmt::format("is of one experiment; allowed in front of it: {}", fmt::join(names, " or ")));
  }
  return names.empty() ? "" : *names.begin();
}

std::vector<Person> persons_of(const std::vector<ReportRow>& rows,
                               const std::set<std::string>& others) {
  std::map<std::string, Person> by_name;
  for (const std::string& name : others) by_name[name].name = name;
  for (const ReportRow& row : rows) {
    Person& person = by_name[row.run->source];
    person.name = person_of(*row.run);
    person.rows.emplace(row.run->point, row);
  }
  std::vector<Person> persons;
  for (auto& [name, found] : by_name) persons.push_back(std::move(found));
  return persons;
}

// Returns the points in the order of the experiment, unless the reader chose another.
std::vector<std::string> points_of(std::vector<ReportRow> rows, bool is_sorted) {
  if (!is_sorted) {
    std::ranges::stable_sort(rows, {}, [](const ReportRow& row) {
      return std::pair(row.run->position, row.run->family_value);
    });
  }
  std::vector<std::string> points;
  for (const ReportRow& row : rows) {
    if (std::ranges::find(points, row.run->point) == points.end()) points.push_back(row.run->point);
  }
  return points;
}

bool was_measured(const ReportRow& row) { return row.series->finished_count > 0; }

// Null: the person did not start the point.
const ReportRow* row_at(const ReportRow& row, const std::string& point) {
  const auto found = row.person->rows.find(point);
  return found == row.person->rows.end() ? nullptr : &found->second;
}

// "FSDP,\nbatch 8"
std::string in_short_lines(const std::string& name) {
  constexpr size_t kHeadingWidth = 12;
  std::string text = wrapped("", name, 0, kHeadingWidth);
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

// `marked` are the rows that differ from most others.
Column column_of(const std::string& point, const DifferingRows& marked) {
  return {point,
          in_short_lines(point),
          "The point " + point + ".",
          Alignment::kRight,
          [=](const ReportRow& person) {
            const ReportRow* row = row_at(person, point);
            return row != nullptr && was_measured(*row) ? person.person->figure->value(*row)
                                                        : Value();
          },
          [=, &marked](const ReportRow& person) {
            const ReportRow* row = row_at(person, point);
            if (row == nullptr) return std::string("-");
            return (marked.runs.contains(row->run) ? "*" : "") +
                   (was_measured(*row) ? text_of(*person.person->figure, *row)
                                       : row->series->status_text());
          }};
}

Column names_column() {
  return {"source", "source", "Whose results they are.", Alignment::kLeft,
          [](const ReportRow& row) { return Value(row.person->name); }};
}

// Programs need this column because they see no titles of blocks.
Column figures_column() {
  return {"figure", "", "The column that the row's figures are of.", Alignment::kLeft,
          [](const ReportRow& row) { return Value(row.person->figure->name); }};
}

size_t width_of(const Column& column, const std::vector<ReportRow>& rows) {
  size_t width = 0;
  std::istringstream lines(column.heading);
  for (std::string line; std::getline(lines, line);) width = std::max(width, display_width(line));
  for (const ReportRow& row : rows) width = std::max(width, display_width(text_of(column, row)));
  return width;
}

// Divides the columns into tables that fit the terminal's width; 0: any width.
std::vector<std::vector<Column>> tables_of(const std::vector<Column>& points,
                                           const std::vector<ReportRow>& rows, size_t width) {
  std::vector<std::vector<Column>> tables{{names_column()}};
  size_t used = width_of(names_column(), rows);
  for (const Column& point : points) {
    const size_t own = kColumnGap + width_of(point, rows);
    if (tables.back().size() > 1 && width > 0 && used + own > width) {
      tables.push_back({names_column()});
      used = width_of(names_column(), rows);
    }
    tables.back().push_back(point);
    used += own;
  }
  return tables;
}

// "bob misses 2 of 5: 4xDDP (failed), offload (not there)", for each person; a line if nobody does.
std::vector<std::string> lines_on_missing(const std::vector<Person>& persons,
                                          const std::vector<std::string>& points) {
  std::vector<std::string> lines;
  for (const Person& person : persons) {
    if (person.rows.empty()) {
      lines.push_back(fmt::format("{} has none of it.", person.name));
      continue;
    }
    std::vector<std::string> missing;
    for (const std::string& point : points) {
      const auto row = person.rows.find(point);
      if (row != person.rows.end() && has_result(row->second)) continue;
      missing.push_back(
          fmt::format("{} ({})", point,
                      row == person.rows.end() ? "not there" : row->second.series->status_text()));
    }
    if (missing.empty()) continue;
    lines.push_back(fmt::format("{} misses {} of {}: {}.", person.name, missing.size(),
                                points.size(), joined_names(missing)));
  }
  if (lines.empty()) lines.push_back("Nobody misses a point.");
  return lines;
}

// Returns the requested columns. A wide report adds every usual column that a row has.
std::vector<Column> figures_of(const std::vector<std::string>& names, bool is_wide,
                               const std::vector<ReportRow>& rows) {
  std::vector<Column> figures;
  for (const std::string& name : names) {
    figures.push_back(in_brief(find_column(columns(), name, "--class")));
  }
  if (!is_wide) return figures;
  for (const Column& column : columns()) {
    const bool is_place = column.name == "point" || column.name == "source";
    const bool is_usual = !column.heading.empty() && !is_place;
    const bool is_known = !column.is_shown_for || std::ranges::any_of(rows, column.is_shown_for);
    const bool is_new = std::ranges::find(figures, column.name, &Column::name) == figures.end();
    if (is_usual && is_known && is_new) figures.push_back(column);
  }
  return figures;
}

// Returns a block of persons for each figure. The figures outlive it.
std::vector<Person> with_figures(const std::vector<Person>& persons,
                                 const std::vector<Column>& figures) {
  std::vector<Person> all;
  for (const Column& figure : figures) {
    for (Person person : persons) {
      person.figure = &figure;
      all.push_back(std::move(person));
    }
  }
  return all;
}

std::vector<Block> blocks_of(const std::vector<ReportRow>& rows,
                             const std::vector<Column>& figures) {
  const size_t count = rows.size() / figures.size();
  std::vector<Block> blocks;
  for (size_t i = 0; i < figures.size(); ++i) {
    blocks.push_back({.title = figures.size() > 1 ? printed_heading(figures[i]) : "",
                      .rows = std::span(rows).subspan(i * count, count)});
  }
  return blocks;
}

}  // namespace

std::string render_class(Format format, const Report& report, const std::vector<std::string>& names,
                         const std::set<std::string>& persons) {
  const PreparedReport all = prepare(Format::kCsv, report);
  const std::vector<Column> figures = figures_of(names, report.view.wide, all.rows);
  const DifferingRows differing = differing_rows(all.rows);
  ComparisonRow of_everybody;
  of_everybody.experiment = require_one_experiment(all.rows);
  const std::vector<Person> whole_class = persons_of(all.rows, persons);
  const std::vector<Person> with_figure = with_figures(whole_class, figures);
  const std::vector<std::string> points = points_of(all.rows, !report.view.sort.empty());
  std::vector<ReportRow> rows;
  for (const Person& person : with_figure)
    rows.push_back({.run = &of_everybody, .person = &person});
  std::vector<Column> of_points;
  for (const std::string& point : points) of_points.push_back(column_of(point, differing));
  auto tables = tables_of(of_points, rows, format == Format::kTable ? report.width : 0);
  if (figures.size() > 1) tables[0].insert(tables[0].begin(), figures_column());

  Report shown;
  shown.title = of_everybody.experiment;
  if (figures.size() == 1) shown.title += ": " + printed_heading(figures.front());
  shown.results = report.results;
  shown.colour = report.colour;
  shown.width = report.width;
  shown.html.head = report.html.head;
  std::string text;
  for (size_t i = 0; i < tables.size(); ++i) {
    PreparedReport part{.report = shown, .columns = tables[i], .rows = rows};
    part.blocks = blocks_of(part.rows, figures);
    if (i + 1 == tables.size()) {
      part.warnings = all.warnings;
      part.lines = lines_on_missing(whole_class, points);
      std::ranges::copy(differing.lines, std::back_inserter(part.lines));
    }
    text += (i > 0 ? "\n" : "") + render(format, std::move(part));
    shown.title.clear();
  }
  return text;
}

}  // namespace fsdp
