#include "runner/report/class_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "contract/text/config_error.h"
#include "runner/report/brief_columns.h"
#include "runner/report/formats.h"
#include "runner/report/names.h"
#include "runner/report/terminal_text.h"
#include "runner/report/text_table.h"

namespace fsdp {

struct Person {
  std::string name;
  std::map<std::string, ReportRow> rows{};  // by point
};

namespace {

// The experiment's name where it ran.
std::string own_name(const ComparisonRow& run) {
  const bool is_merged = !run.source.empty() && run.experiment.starts_with(run.source + '/');
  return is_merged ? run.experiment.substr(run.source.size() + 1) : run.experiment;
}

std::string require_one_experiment(const std::vector<ReportRow>& rows) {
  std::set<std::string> names;
  for (const ReportRow& row : rows) names.insert(own_name(*row.run));
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
  const auto person = [&](const std::string& name) -> Person& {
    Person& found = by_name[name];
    found.name = name.empty() ? "here" : name;
    return found;
  };
  std::ranges::for_each(others, person);
  for (const ReportRow& row : rows) {
    person(row.run->source).rows.emplace(row.run->point, row);
  }
  std::vector<Person> persons;
  for (auto& [name, found] : by_name) persons.push_back(std::move(found));
  return persons;
}

// In the order of the experiment, unless the reader chose one.
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

// That a run does not fit is a result too.
bool has_result(const ReportRow& row) {
  return was_measured(row) || row.run->status == RunStatus::kOutOfMemory;
}

// Null: nobody began it.
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

Column column_of(const std::string& point, const Column& figure) {
  return {point,
          in_short_lines(point),
          figure.documentation,
          Alignment::kRight,
          [=](const ReportRow& person) {
            const ReportRow* row = row_at(person, point);
            return row != nullptr && was_measured(*row) ? figure.value(*row) : Value();
          },
          [=](const ReportRow& person) {
            const ReportRow* row = row_at(person, point);
            if (row == nullptr) return std::string("-");
            return was_measured(*row) ? text_of(figure, *row) : row->series->status_text();
          }};
}

Column names_column() {
  return {"source", "source", "Whose results they are.", Alignment::kLeft,
          [](const ReportRow& row) { return Value(row.person->name); }};
}

size_t width_of(const Column& column, const std::vector<ReportRow>& rows) {
  size_t width = 0;
  std::istringstream lines(column.heading);
  for (std::string line; std::getline(lines, line);) width = std::max(width, display_width(line));
  for (const ReportRow& row : rows) width = std::max(width, display_width(text_of(column, row)));
  return width;
}

// The columns of each table, of which none is wider than the terminal; 0: of any width.
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

// "bob misses 2 of 5: 4xDDP (failed), offload (not there)", of each who does; or that nobody does.
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

// Figures of different devices are not those of different persons.
std::string line_on_devices(const std::vector<ReportRow>& rows) {
  std::map<std::string, std::set<std::string>> persons;
  for (const ReportRow& row : rows) {
    const std::string& name = row.run->source;
    if (was_measured(row)) persons[row.run->device_name].insert(name.empty() ? "here" : name);
  }
  if (persons.size() < 2) return "";
  std::vector<std::string> texts;
  for (const auto& [device, names] : persons) {
    texts.push_back(
        fmt::format("{}: {}", device.empty() ? "unknown" : device, joined_names(names)));
  }
  return fmt::format("Not all on one kind of device: {}.", fmt::join(texts, "; "));
}

// A point of one name may be another run in the list of another person.
std::string line_on_specifications(const std::vector<ReportRow>& rows,
                                   const std::vector<std::string>& points) {
  std::map<std::string, std::set<std::string>> hashes;
  for (const ReportRow& row : rows) {
    if (was_measured(row)) hashes[row.run->point].insert(row.run->hash8);
  }
  std::vector<std::string> differing;
  std::ranges::copy_if(points, std::back_inserter(differing),
                       [&](const std::string& point) { return hashes[point].size() > 1; });
  if (differing.empty()) return "";
  return fmt::format(
      "Not everybody ran the same: {}; `fsdp-run diff` shows what two runs differ in.",
      joined_names(differing));
}

}  // namespace

std::string render_class(Format format, const Report& report, const std::string& figure,
                         const std::set<std::string>& persons) {
  const Column column = in_brief(find_column(columns(), figure, "--class"));
  const PreparedReport all = prepare(Format::kCsv, report);
  ComparisonRow of_everybody;
  of_everybody.experiment = require_one_experiment(all.rows);
  const std::vector<Person> whole_class = persons_of(all.rows, persons);
  const std::vector<std::string> points = points_of(all.rows, !report.view.sort.empty());
  std::vector<ReportRow> rows;
  for (const Person& person : whole_class)
    rows.push_back({.run = &of_everybody, .person = &person});
  std::vector<Column> of_points;
  for (const std::string& point : points) of_points.push_back(column_of(point, column));
  const auto tables = tables_of(of_points, rows, format == Format::kTable ? report.width : 0);

  Report shown;
  shown.title = fmt::format("{}: {}", of_everybody.experiment, printed_heading(column));
  shown.results = report.results;
  shown.colour = report.colour;
  shown.width = report.width;
  std::string text;
  for (size_t i = 0; i < tables.size(); ++i) {
    PreparedReport part{.report = shown, .columns = tables[i], .rows = rows};
    part.blocks = {{.rows = part.rows}};
    if (i + 1 == tables.size()) {
      part.lines = lines_on_missing(whole_class, points);
      for (std::string line :
           {line_on_devices(all.rows), line_on_specifications(all.rows, points)}) {
        if (!line.empty()) part.lines.push_back(std::move(line));
      }
    }
    text += (i > 0 ? "\n" : "") + render(format, std::move(part));
    shown.title.clear();
  }
  return text;
}

}  // namespace fsdp
