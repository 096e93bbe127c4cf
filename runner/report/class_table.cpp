// Makes tables of a class's merged results: a row for each person, a column for each point.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/text/config_error.h"
#include "contract/spec/yaml_value.h"
#include "runner/answers/answers.h"
#include "runner/report/columns.h"
#include "runner/table/names.h"
#include "runner/table/terminal_text.h"

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

std::vector<Person> persons_of(const std::vector<RunRow>& rows, const ClassMembers& members) {
  std::map<std::string, Person> by_name;
  for (const auto& [name, experiments] : members.experiments) by_name[name].name = name;
  for (const std::string& name : members.roster.value_or(std::set<std::string>())) {
    by_name[name].name = name;
  }
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

bool was_measured(const RunRow* row) { return row != nullptr && row->series->finished_count > 0; }

// --- copies ---

// Point, hash, host and time of a run's begin. Two persons have it alike only if one has copied.
using Start = std::tuple<std::string, std::string, std::string, int64_t>;

// nullopt: it is not known where and when the run began.
std::optional<Start> start_of(const ComparisonRow& run) {
  if (!run.started_unix_ms || run.host.empty()) return std::nullopt;
  return Start(run.point, run.hash8, run.host, *run.started_unix_ms);
}

std::map<std::string, std::set<Start>> starts_by_person(const std::vector<RunRow>& rows) {
  std::map<std::string, std::set<Start>> starts;
  for (const RunRow& row : rows) {
    for (const ComparisonRow* run : row.series->runs) {
      if (const auto start = start_of(*run)) starts[person_of(*run)].insert(*start);
    }
  }
  return starts;
}

// "gina's 3 runs are alice's: same attempts, hosts and times."
std::vector<std::string> lines_on_copies(const std::vector<RunRow>& rows) {
  std::vector<std::string> lines;
  const auto starts = starts_by_person(rows);
  for (auto person = starts.begin(); person != starts.end(); ++person) {
    for (auto before = starts.begin(); before != person; ++before) {
      const auto& own = person->second;
      const auto alike = std::ranges::count_if(
          own, [&](const Start& start) { return before->second.contains(start); });
      if (alike == 0) continue;
      const std::string all =
          fmt::format("{}'s {}", person->first, counted(std::ssize(own), "run"));
      lines.push_back(fmt::format("{}{} {} {}'s: same attempts, hosts and times.",
                                  alike < std::ssize(own) ? fmt::format("{} of ", alike) : "", all,
                                  alike == 1 ? "is" : "are", before->first));
      break;
    }
  }
  return lines;
}

// --- the class's figures of a point ---

// Returns the measured rows, one of each person and point. Copies of a person's row count once.
std::vector<ComparisonRow> rows_of_class(const std::vector<Person>& persons) {
  std::set<Start> counted;
  const auto is_new = [&](const ComparisonRow* run) {
    const auto start = start_of(*run);
    return !start || counted.insert(*start).second;
  };
  std::vector<ComparisonRow> rows;
  for (const Person& person : persons) {
    for (const auto& [point, row] : person.rows) {
      if (!was_measured(&row) || !std::ranges::all_of(row.series->runs, is_new)) continue;
      ComparisonRow& of_class = rows.emplace_back(*row.run);
      of_class.experiment.clear();
      of_class.series = point;
      of_class.status = RunStatus::kFinished;
    }
  }
  return rows;
}

// The table's subject.
struct ClassFigures {
  std::vector<Person> persons;
  Points points;
  std::vector<RunColumn> figures;
  std::set<const ComparisonRow*> marked;  // rows that differ from most others
  std::vector<ComparisonRow> rows = rows_of_class(persons);
  std::deque<Series> medians = series_of(rows);  // of points, as a row's are over its repeats

  // nullopt: fewer than three persons have a figure.
  std::optional<RunRow> median_of(const std::string& point) const {
    constexpr size_t kLeastPersons = 3;
    const auto found = std::ranges::find(
        medians, point, [](const Series& series) { return series_name(*series.runs.front()); });
    if (found == medians.end() || found->runs.size() < kLeastPersons) return std::nullopt;
    return RunRow{.run = &found->median, .series = &*found};
  }
};

// A person's figure of a point.
struct Measured {
  const Person* person;
  const RunRow* row;
  double figure;
};

std::vector<Measured> measured_at(const std::string& point, const RunColumn& figure,
                                  const std::vector<Person>& persons) {
  std::vector<Measured> measured;
  for (const Person& person : persons) {
    const RunRow* row = person.row_at(point);
    if (!was_measured(row)) continue;
    if (const auto own = number_of(figure.value(*row))) measured.push_back({&person, row, *own});
  }
  return measured;
}

// A figure that is 3 times the class's median, or a third.
struct Outlier {
  const RunColumn* figure;
  const RunRow* row;
  std::string text;  // "tokens/s far from the others': carol (4xDDP: 21900, median 2060)"
};

std::vector<Outlier> outliers_of(const ClassFigures& all) {
  constexpr double kFar = 3;
  std::vector<Outlier> outliers;
  for (const RunColumn& figure : all.figures) {
    for (const std::string& point : all.points) {
      const std::optional<RunRow> middle = all.median_of(point);
      const double usual = middle ? number_of(figure.value(*middle)).value_or(0) : 0;
      if (usual <= 0) continue;
      for (const auto& [person, row, own] : measured_at(point, figure, all.persons)) {
        if (own < kFar * usual && kFar * own > usual) continue;
        outliers.push_back(
            {&figure, row,
             fmt::format("{} far from the others': {} ({}: {}, median {})", figure.heading_line(),
                         person->name, point, figure.text_for(*row), figure.text_for(*middle))});
      }
    }
  }
  return outliers;
}

// Returns a person's figure of a point.
Cell cell_of(const RunRow* row, const RunColumn& figure, bool is_marked) {
  if (row == nullptr) return {Value(), "-"};
  return {was_measured(row) ? figure.value(*row) : Value(),
          (is_marked ? "*" : "") +
              (was_measured(row) ? figure.text_for(*row) : row->series->status_text())};
}

// Returns the median, the least and the greatest figure of a point.
std::array<Cell, 3> summary_of(const std::string& point, const RunColumn& figure,
                               const ClassFigures& all) {
  std::array<Cell, 3> cells;
  cells.fill({Value(), "-"});
  const std::optional<RunRow> middle = all.median_of(point);
  if (!middle) return cells;
  const auto cell = [&](const RunRow& row) {
    return Cell(figure.value(row), figure.text_for(row));
  };
  cells[0] = cell(*middle);
  const auto measured = measured_at(point, figure, all.persons);
  if (measured.empty()) return cells;
  cells[1] = cell(*std::ranges::min_element(measured, {}, &Measured::figure)->row);
  cells[2] = cell(*std::ranges::max_element(measured, {}, &Measured::figure)->row);
  return cells;
}

// Adds the median, the least and the greatest figure, if three persons have a figure of a point.
void add_summary(Block& block, const ClassFigures& all, const RunColumn& figure, bool is_named) {
  const auto has_median = [&](auto& point) { return all.median_of(point).has_value(); };
  if (std::ranges::none_of(all.points, has_median)) return;
  for (size_t i = 0; const char* name : {"median", "least", "greatest"}) {
    std::vector<Cell>& cells = block.rows.emplace_back().cells;
    if (is_named) cells.emplace_back(figure.name, "");
    cells.emplace_back(name, name);
    for (const std::string& point : all.points) cells.push_back(summary_of(point, figure, all)[i]);
    ++i;
  }
}

// Returns a block for each figure, with a row for each person. Programs, which see no titles of
// blocks, get a cell with the figure's name.
std::vector<Block> blocks_of(const ClassFigures& all, const std::vector<Outlier>& outliers,
                             bool are_named) {
  std::vector<Block> blocks;
  for (const RunColumn& figure : all.figures) {
    Block& block = blocks.emplace_back();
    if (all.figures.size() > 1) block.title = figure.heading_line();
    const auto is_far = [&](const RunRow* row) {
      return std::ranges::any_of(outliers, [&](const Outlier& outlier) {
        return outlier.figure == &figure && outlier.row == row;
      });
    };
    for (const Person& person : all.persons) {
      std::vector<Cell>& cells = block.rows.emplace_back().cells;
      if (are_named) cells.emplace_back(figure.name, "");
      cells.emplace_back(person.name, person.name);
      for (const std::string& point : all.points) {
        const RunRow* row = person.row_at(point);
        const bool is_marked = row != nullptr && (all.marked.contains(row->run) || is_far(row));
        cells.push_back(cell_of(row, figure, is_marked));
      }
    }
    add_summary(block, all, figure, are_named);
  }
  return blocks;
}

// --- who has no result ---

// "bob has no result for 2 of 5 points: 4xDDP (failed), offload (not in the list)", for each person
// who misses a point; else one line that says that nobody does.
std::vector<std::string> lines_on_missing(const ClassFigures& all, const ClassMembers& members) {
  std::vector<std::string> lines;
  const Points& points = all.points;
  for (const Person& person : all.persons) {
    const auto own = members.experiments.find(person.name);
    if (person.rows.empty() && own == members.experiments.end()) {
      lines.push_back(fmt::format("{} is on the roster and has no results.", person.name));
      continue;
    }
    if (person.rows.empty()) {
      const std::string others = joined_names(own->second);
      lines.push_back(fmt::format("{} has no runs in this table{}.", person.name,
                                  others.empty() ? "" : "; other experiments: " + others));
      continue;
    }
    if (members.roster && !members.roster->contains(person.name)) {
      lines.push_back(fmt::format("{} is not on the roster.", person.name));
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
                         const ClassMembers& members) {
  const ReportRows comparison = compare(RowKind::kSeries, report);
  const std::string experiment = require_one_experiment(comparison.rows);
  const DifferingRows differing = differing_rows(comparison.rows);
  ClassFigures all{.persons = persons_of(comparison.rows, members),
                   .points = points_of(comparison.rows, !report.view.sort.empty()),
                   .figures = figures_of(names, report.view.wide, comparison.rows),
                   .marked = differing.runs};
  const std::vector<RunColumn>& figures = all.figures;
  const std::vector<Outlier> outliers = outliers_of(all);

  Table table{.title = experiment, .label = experiment};
  if (figures.size() == 1) table.title += ": " + figures.front().heading_line();
  const bool are_named = is_for_programs(format) && figures.size() > 1;
  if (are_named) {
    table.columns.push_back({"figure", "", "The name of the figure that the row shows.", true});
  }
  table.columns.push_back({"source", "source", "The person whose results the row shows.", true});
  const bool has_text = is_among(mapped(figures, &RunColumn::type), ColumnType::kText);
  for (const std::string& point : all.points) {
    table.columns.push_back(Column{point, in_short_lines(point), "The point " + point + "."});
    if (has_text) table.columns.back().type = ColumnType::kText;
  }
  table.blocks = blocks_of(all, outliers, are_named);
  table.warnings = warnings_of(comparison);
  table.notes = lines_on_missing(all, members);
  for (const auto& lines : {lines_on_copies(comparison.rows), differing.lines}) {
    table.notes.insert(table.notes.end(), lines.begin(), lines.end());
  }
  for (const Outlier& outlier : outliers) table.notes.push_back("* " + outlier.text + '.');
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
