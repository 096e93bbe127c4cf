#include "runner/report/report.h"

#include <algorithm>
#include <map>

#include "runner/answers/answers.h"
#include "runner/report/comparison.h"
#include "runner/table/names.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

// --- rows ---

RunRow row_of(const Series& series) { return {.run = &series.median, .series = &series}; }

std::span<const RunColumn> columns_of(RowKind kind) {
  return kind == RowKind::kRank ? rank_columns() : columns();
}

// Sets the groups of a report. A series' group is its text in the column.
void put_groups(std::deque<Series>& all, const std::string& column_name) {
  if (column_name.empty()) return;
  const RunColumn& column = find_column(columns(), column_name, "--group");
  for (Series& series : all) series.group = column.text_for(row_of(series));
}

std::vector<RunRow> rows_of(const Comparison& comparison) {
  std::vector<RunRow> rows;
  if (comparison.row_kind == RowKind::kSeries) {
    std::ranges::transform(comparison.series, std::back_inserter(rows), row_of);
    return rows;
  }
  std::map<int64_t, RunRow> row_of_run;
  for (const Series& series : comparison.series) {
    for (const ComparisonRow* run : series.runs) {
      row_of_run[run->run] = {.run = run, .series = &series};
    }
  }
  if (comparison.row_kind == RowKind::kRun) {
    for (const ComparisonRow& run : comparison.report.rows) rows.push_back(row_of_run.at(run.run));
    return rows;
  }
  for (const RankRow& rank : comparison.report.rank_rows) {
    const auto known = row_of_run.find(rank.run);
    if (known == row_of_run.end()) continue;
    rows.push_back(known->second);
    rows.back().rank = &rank;
  }
  return rows;
}

// Sorts rows by group, in the order of the report. Within a group the order of rows stays.
void put_row_groups(Comparison& comparison) {
  std::vector<RunRow>& rows = comparison.rows;
  std::map<std::string, size_t> order;
  for (const Series& series : comparison.series) order.emplace(series.group, order.size());
  std::ranges::stable_sort(rows, {}, [&](auto& row) { return order.at(row.series->group); });
  const std::string& column = comparison.report.view.group;
  for (auto begin = rows.begin(); begin != rows.end();) {
    const std::string& group = begin->series->group;
    const auto end =
        std::find_if(begin, rows.end(), [&](auto& row) { return row.series->group != group; });
    comparison.groups.push_back(
        {.title = column.empty() ? "" : column + ": " + group, .rows = {begin, end}});
    begin = end;
  }
}

// --- columns ---

// True if the column is added to the usual ones and does not replace them.
bool adds(const std::string& word) { return word.starts_with('+'); }
bool has_usual_columns(const View& view) { return std::ranges::all_of(view.columns, adds); }

bool has_brief_columns(Format format, const Comparison& comparison) {
  const View& view = comparison.report.view;
  return !is_for_programs(format) && comparison.row_kind != RowKind::kRank && !view.wide &&
         has_usual_columns(view);
}

// Returns the usual columns. Runs of several experiments have a column with the experiment. Columns
// without a value in any row have no heading.
std::vector<RunColumn> usual_columns(const Comparison& comparison) {
  const std::span<const RunColumn> all = columns_of(comparison.row_kind);
  const std::vector<RunRow>& rows = comparison.rows;
  const auto several = std::ranges::adjacent_find(
      rows, std::ranges::not_equal_to{}, [](auto& row) -> auto& { return row.run->experiment; });
  std::vector<RunColumn> usual(all.begin(), all.end());
  for (RunColumn& column : usual) {
    if (column.name == "experiment" && several != rows.end()) column = with_heading(column);
    if (!column.is_shown_for_any(rows)) column.heading.clear();
  }
  return usual;
}

// Returns the columns that the view chooses. A format for people takes columns with a heading.
std::vector<RunColumn> chosen_columns(Format format, const Comparison& comparison, bool brief) {
  const View& view = comparison.report.view;
  const std::span<const RunColumn> all = columns_of(comparison.row_kind);
  std::vector<RunColumn> chosen;
  if (has_usual_columns(view)) {
    chosen = brief ? brief_columns(comparison.rows, all) : usual_columns(comparison);
  }
  for (const std::string& word : view.columns) {
    const std::string name = adds(word) ? word.substr(1) : word;
    const RunColumn column = with_heading(find_column(all, name, "--columns"));
    const auto there = std::ranges::find(chosen, column.name, &RunColumn::name);
    if (there == chosen.end()) {
      chosen.push_back(column);
    } else {
      *there = column;
    }
  }
  if (!is_for_programs(format)) {
    std::erase_if(chosen, [](const RunColumn& column) { return column.heading.empty(); });
  }
  return chosen;
}

// --- the table ---

// Returns the rows' series if all are of one experiment, else nothing.
SeriesRows series_of_one_experiment(std::span<const RunRow> rows) {
  SeriesRows series;
  for (const RunRow& row : rows) {
    if (row.run->experiment != rows.front().run->experiment) return {};
    if (std::ranges::find(series, row.series) == series.end()) series.push_back(row.series);
  }
  return series;
}

// Makes the rows of a table.
class RowMaker {
 public:
  RowMaker(Format format, const std::vector<RunColumn>& columns,
           std::set<const ComparisonRow*> marked)
      : format_(format), columns_(columns), marked_(std::move(marked)) {
    if (format == Format::kHtml) {
      std::ranges::transform(columns, std::back_inserter(brief_columns_), in_brief);
    }
  }

  Row row(const RunRow& from) const {
    Row row;
    for (const RunColumn& column : columns_) {
      row.cells.emplace_back(has_values() ? column.value(from) : Value(), text_of(column, from));
      if (column.name == "status") row.cells.back().style = colour_of(from.run->status);
    }
    if (format_ != Format::kHtml) return row;
    for (const RunColumn& column : brief_columns_) {
      row.brief_texts.push_back(text_of(column, from));
    }
    row.reason = from.run->reason;
    return row;
  }

 private:
  bool has_values() const { return is_for_programs(format_) || format_ == Format::kHtml; }

  std::string text_of(const RunColumn& column, const RunRow& row) const {
    if (is_for_programs(format_)) return "";
    const bool is_marked = column.name == "point" && marked_.contains(row.run);
    return column.text_for(row) + (is_marked ? " *" : "");
  }

  Format format_;
  const std::vector<RunColumn>& columns_;
  std::vector<RunColumn> brief_columns_{};
  std::set<const ComparisonRow*> marked_;  // rows that differ from most others
};

// Names the best columns of the page's rows.
void put_best(std::vector<Row>& rows, std::span<const RunRow> from, const SeriesRows& compared) {
  const FastestRows fastest = fastest_rows(compared);
  const SeriesRows least_memory = rows_with_least_memory(compared);
  const auto is_among = [](const SeriesRows& best, const RunRow& row) {
    return std::ranges::find(best, row.series) != best.end();
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string>& names = rows[i].best_columns;
    if (is_among(fastest.rows, from[i])) names.push_back(fastest.column);
    if (is_among(least_memory, from[i])) names.push_back("memory_allocated_bytes_max");
  }
}

// Returns a block. It has answers if its rows are runs of one experiment with the usual columns.
Block block_of(const RowGroup& group, const RowMaker& maker, Format format, bool has_answers) {
  Block block{.title = group.title};
  for (const RunRow& row : group.rows) block.rows.push_back(maker.row(row));
  if (!has_answers) return block;
  const SeriesRows compared = series_of_one_experiment(group.rows);
  block.answers = answers_for(compared);
  const std::string set_up = block.answers.empty() ? "" : set_up_of(compared);
  if (!set_up.empty()) block.introduction = {set_up};
  if (format == Format::kHtml) put_best(block.rows, group.rows, compared);
  return block;
}

// Drops the columns that do not fit into the terminal.
void keep_columns_that_fit(Table& table, const Terminal& terminal) {
  const std::vector<size_t> shown = lay_out(table, terminal).shown;
  const auto keep = [&](auto& all) {
    std::remove_reference_t<decltype(all)> kept;
    for (const size_t number : shown) kept.push_back(std::move(all[number]));
    all = std::move(kept);
  };
  keep(table.columns);
  for (Block& block : table.blocks) {
    for (Row& row : block.rows) keep(row.cells);
  }
}

Terminal terminal_of(const Report& report) {
  return {.width = report.width, .colour = report.colour};
}

Table table_of(Format format, const Comparison& comparison) {
  const Report& report = comparison.report;
  const bool is_page = format == Format::kHtml;
  const bool is_of_ranks = comparison.row_kind == RowKind::kRank;
  const bool has_brief = has_brief_columns(format, comparison);
  const bool fits_terminal =
      format == Format::kTable && !report.view.wide && has_usual_columns(report.view);
  const auto columns = chosen_columns(format, comparison, has_brief && !is_page);
  ShownColumns shown{.are_brief = has_brief && !is_page};
  for (const RunColumn& column :
       is_page ? chosen_columns(format, comparison, has_brief) : columns) {
    if (!column.heading.empty()) shown.names.insert(column.name);
  }
  const bool is_csv = format == Format::kCsv;  // has columns and values only
  const DifferingRows differing =
      is_of_ranks || is_csv ? DifferingRows() : differing_rows(comparison.rows);
  const RowMaker maker(format, columns, differing.runs);

  Table table{.title = report.title};
  if (!comparison.rows.empty()) table.label = comparison.rows.front().run->experiment;
  for (const RunColumn& column : columns) {
    table.columns.push_back(column);
    table.columns.back().is_shown_first = shown.has(column.name);
    if (fits_terminal || is_page) continue;
    table.columns.back().drop_order = 0;
    table.columns.back().least = 0;
  }
  const bool has_answers = !is_of_ranks && !is_csv && has_usual_columns(report.view);
  for (const RowGroup& group : comparison.groups) {
    table.blocks.push_back(block_of(group, maker, format, has_answers));
    shown.is_device_told = shown.is_device_told || !table.blocks.back().introduction.empty();
  }
  if (fits_terminal) {
    keep_columns_that_fit(table, terminal_of(report));
    shown.names.clear();
    for (const Column& column : table.columns) shown.names.insert(column.name);
  }
  if (is_csv) return table;
  table.warnings = warnings_of(comparison);
  table.notes = notes_below(comparison, shown);
  std::ranges::copy(differing.lines, std::back_inserter(table.notes));
  table.reasons = reasons_below(comparison);
  return table;
}

}  // namespace

bool is_for_programs(Format format) { return format == Format::kCsv || format == Format::kJson; }

Runs Comparison::runs() const {
  Runs runs;
  std::set<const ComparisonRow*> known;
  const auto add = [&](const ComparisonRow* run) {
    if (known.insert(run).second) runs.push_back(run);
  };
  for (const RunRow& row : rows) {
    if (row.is_series()) {
      std::ranges::for_each(row.series->runs, add);
    } else {
      add(row.run);
    }
  }
  return runs;
}

Comparison compare(Format format, const Report& report) {
  Comparison comparison{.report = report,
                        .row_kind = report.row_kind.value_or(
                            is_for_programs(format) ? RowKind::kRun : RowKind::kSeries),
                        .series = series_of(report.rows)};
  const View& view = report.view;
  put_groups(comparison.series, view.group);
  put_baselines(comparison.series, view.baseline);
  put_ratios(comparison.series);
  put_scaling(comparison.series);
  comparison.rows = rows_of(comparison);
  const std::span<const RunColumn> all = columns_of(comparison.row_kind);
  filter(comparison.rows, view.where, all);
  sort(comparison.rows, view.sort, all);
  put_row_groups(comparison);
  return comparison;
}

std::vector<Warning> warnings_of(const Comparison& comparison) {
  SeriesRows all;
  std::set<const Series*> known;
  for (const RunRow& row : comparison.rows) {
    if (known.insert(row.series).second) all.push_back(row.series);
  }
  std::vector<SeriesRows> compared;
  for (auto& [place, rows] : grouped(all, [](const Series* series) {
         return std::pair(series->median.experiment, series->group);
       })) {
    compared.push_back(std::move(rows));
  }
  return warnings_for(compared);
}

std::vector<const ComparisonRow*> shown_runs(Format format, const Report& report) {
  return compare(format, report).runs();
}

std::string render(Format format, const Report& report) {
  const Comparison comparison = compare(format, report);
  return render(format, table_of(format, comparison), report, comparison.series);
}

std::string render(Format format, const Table& table, const Report& report,
                   const std::deque<Series>& series) {
  switch (format) {
    case Format::kTable:
      return table_text(table, terminal_of(report));
    case Format::kMarkdown:
      return table_markdown(table);
    case Format::kCsv:
      return table_csv(table);
    case Format::kJson:
      return table_json(table);
    case Format::kLatex:
      return table_latex(table);
    case Format::kHtml:
      return render_page(table, report, series);
  }
  return "";
}

}  // namespace fsdp
