// Makes a table of runs: rows, groups, columns, and the lines around them.
#include "runner/report/report.h"

#include <algorithm>
#include <map>

#include "runner/answers/answers.h"
#include "runner/answers/facts.h"
#include "runner/report/columns.h"
#include "runner/store/list_name.h"
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

std::vector<RunRow> rows_of(const ReportRows& comparison) {
  std::vector<RunRow> rows;
  std::map<int64_t, RunRow> of_runs;
  for (const Series& series : comparison.series) {
    if (comparison.row_kind == RowKind::kSeries) rows.push_back(row_of(series));
    for (const ComparisonRow* run : series.runs) of_runs[run->run] = {run, &series};
  }
  if (comparison.row_kind == RowKind::kRun) {
    for (const ComparisonRow& run : comparison.report.rows) rows.push_back(of_runs.at(run.run));
  }
  if (comparison.row_kind == RowKind::kRank) {
    for (const RankRow& rank : comparison.report.rank_rows) {
      const auto run = of_runs.find(rank.run);
      if (run != of_runs.end()) rows.push_back({run->second.run, run->second.series, &rank});
    }
  }
  return rows;
}

// Sorts rows by group, in the order of the report. Within a group the order of rows stays.
void put_row_groups(ReportRows& comparison) {
  std::map<std::string, size_t> order;
  for (const Series& series : comparison.series) order.emplace(series.group, order.size());
  const auto group_of = [](const RunRow& row) { return row.series->group; };
  std::ranges::stable_sort(comparison.rows, {},
                           [&](const RunRow& row) { return order.at(row.series->group); });
  const std::string& column = comparison.report.view.group;
  for (auto& [group, rows] : grouped(comparison.rows, group_of)) {
    comparison.groups.push_back(
        {.title = column.empty() ? "" : column + ": " + group, .rows = std::move(rows)});
  }
}

// Returns the name that the experiment has in its file: "lab" for "alice/lab [train.steps=20]".
std::string name_in_file(const Series* row) {
  return experiment_of_list(own_experiment(row->median));
}

// Sets what the marks of figures say about the rows that are shown together. Speeds are compared
// within a list of runs, losses among all lists of an experiment.
void put_marks(std::deque<Series>& all, const RowGroup& group) {
  const auto list = [](const Series* row) { return row->median.experiment; };
  const SeriesRows shown = distinct(mapped(group.rows, &RunRow::series));
  std::set<const Series*> with_other_losses;
  for (const auto& [name, rows] : grouped(shown, list)) put_speeds(all, rows);
  for (const auto& [name, rows] : grouped(shown, name_in_file)) {
    for (const auto& [why, apart] : incomparable(loss_facts(rows))) {
      with_other_losses.insert(apart.begin(), apart.end());
    }
  }
  for (Series& series : all) {
    if (with_other_losses.contains(&series)) series.has_other_losses = true;
  }
}

// --- columns ---

bool adds(const std::string& word) { return word.starts_with('+'); }
// True if the named columns are added to the usual ones and do not replace them.
bool has_usual_columns(const View& view) {
  return view.columns.empty() || std::ranges::any_of(view.columns, adds);
}

bool has_brief_columns(Format format, const ReportRows& comparison) {
  const View& view = comparison.report.view;
  return !is_for_programs(format) && comparison.row_kind != RowKind::kRank && !view.wide &&
         has_usual_columns(view);
}

// Returns the usual columns. Runs of several experiments have a column with the experiment. Columns
// without a value in any row have no heading.
std::vector<RunColumn> usual_columns(const ReportRows& comparison) {
  const std::span<const RunColumn> all = columns_of(comparison.row_kind);
  const std::vector<RunRow>& rows = comparison.rows;
  const auto experiment = [](const RunRow& row) { return row.run->experiment; };
  const bool are_several = distinct(mapped(rows, experiment)).size() > 1;
  std::vector<RunColumn> usual(all.begin(), all.end());
  for (RunColumn& column : usual) {
    if (column.name == "experiment" && are_several) column = with_heading(column);
    if (!column.is_shown_for_any(rows)) column.heading.clear();
  }
  return usual;
}

// Returns the columns that the view chooses. A format for people takes only those with a heading.
std::vector<RunColumn> chosen_columns(Format format, const ReportRows& comparison, bool brief) {
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
  const auto experiment = [](const RunRow& row) { return row.run->experiment; };
  const bool is_one = distinct(mapped(rows, experiment)).size() == 1;
  return is_one ? distinct(mapped(rows, &RunRow::series)) : SeriesRows();
}

// The columns and marks from which a table's rows are made.
struct RowStyle {
  Format format;
  std::vector<RunColumn> columns;
  std::vector<RunColumn> brief_columns{};   // of the page: `columns` as in the brief table
  std::set<const ComparisonRow*> marked{};  // rows that differ from most others

  std::string text_of(const RunColumn& column, const RunRow& row) const {
    if (is_for_programs(format)) return "";
    const bool is_marked = column.name == "point" && marked.contains(row.run);
    return column.text_for(row) + (is_marked ? " *" : "");
  }
};

Row row_of(const RunRow& from, const RowStyle& style) {
  const bool has_values = is_for_programs(style.format) || style.format == Format::kHtml;
  Row row{.reason = from.run->reason};
  for (const RunColumn& column : style.columns) {
    row.cells.emplace_back(has_values ? column.value(from) : Value(), style.text_of(column, from));
    if (column.name == "status") row.cells.back().style = colour_of(from.run->status);
  }
  for (const RunColumn& column : style.brief_columns) {
    row.brief_texts.push_back(style.text_of(column, from));
  }
  return row;
}

// Marks the page's best rows: adds a column's name to each row that is best in the column.
void put_best(std::vector<Row>& rows, std::span<const RunRow> from, const SeriesRows& compared) {
  for (const BestRows& best : {fastest_rows(compared), rows_with_least_memory(compared)}) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (is_among(best.rows, from[i].series)) rows[i].best_columns.push_back(best.column);
    }
  }
}

// Right-aligned figures stand below each other whether or not a mark follows them.
void align_marks(std::vector<Row>& rows) {
  const auto is_marked = [](const std::string& text) {
    return text.ends_with(" ?") || text.ends_with(" *");
  };
  const size_t columns = rows.empty() ? 0 : rows.front().cells.size();
  for (size_t i = 1; i < columns; ++i) {
    const auto text_of = [i](auto& row) -> std::string& { return row.cells[i].text; };
    if (std::ranges::none_of(rows, is_marked, text_of)) continue;
    for (Row& row : rows) {
      if (!is_marked(text_of(row))) text_of(row) += "  ";
    }
  }
}

// Returns a block. It has answers if its rows are runs of one experiment with the usual columns.
Block block_of(const RowGroup& group, const RowStyle& style, bool has_answers) {
  Block block{.title = group.title};
  for (const RunRow& row : group.rows) block.rows.push_back(row_of(row, style));
  if (!has_answers) return block;
  const SeriesRows compared = series_of_one_experiment(group.rows);
  block.answers = answers_for(compared);
  if (!block.answers.empty()) {
    block.introduction = {set_up_of(compared)};
    std::erase(block.introduction, "");
  }
  if (style.format == Format::kHtml) put_best(block.rows, group.rows, compared);
  return block;
}

Terminal terminal_of(const Report& report) {
  return {.width = report.width, .colour = report.colour};
}

// Returns the columns, and sets how a narrow terminal or page shortens them.
std::vector<Column> columns_of_table(const RowStyle& style, const ShownColumns& shown,
                                     bool may_be_shortened) {
  std::vector<Column> columns;
  for (const RunColumn& column : style.columns) {
    columns.push_back(column);
    columns.back().is_shown_first = shown.has(column.name);
    if (may_be_shortened) continue;
    columns.back().drop_order = 0;
    columns.back().least = 0;
  }
  return columns;
}

// Adds the lines below the rows of each block, the warnings and the notes.
void put_lines_below(Table& table, const ReportRows& comparison, const ShownColumns& shown,
                     Format format, bool has_answers) {
  for (size_t i = 0; i < table.blocks.size(); ++i) {
    Block& block = table.blocks[i];
    const RowGroup& group = comparison.groups[i];
    if (!is_for_programs(format)) block.legend = legend_below(group, shown);
    if (format != Format::kTable) continue;
    align_marks(block.rows);
    if (!shown.are_brief || !has_answers) continue;
    std::ranges::move(next_steps(series_of_one_experiment(group.rows)),
                      std::back_inserter(block.answers));
  }
  table.warnings = warnings_of(comparison);
  table.notes = notes_below(comparison, shown);
}

Table table_of(Format format, const ReportRows& comparison) {
  const Report& report = comparison.report;
  const bool is_page = format == Format::kHtml;
  const bool has_rows_only = is_for_programs(format) && format != Format::kJson;
  const bool is_of_ranks = comparison.row_kind == RowKind::kRank;
  const bool has_brief = has_brief_columns(format, comparison);
  const bool fits_terminal =
      format == Format::kTable && !report.view.wide && has_usual_columns(report.view);
  RowStyle style{format, chosen_columns(format, comparison, has_brief && !is_page)};
  if (is_page) style.brief_columns = mapped(style.columns, in_brief);
  const DifferingRows differing =
      is_of_ranks || has_rows_only ? DifferingRows() : differing_rows(comparison.rows);
  style.marked = differing.runs;
  ShownColumns shown{
      .are_brief = has_brief && !is_page,
      .has_baseline_in_heading = !percent_heading(comparison.rows).ends_with("baseline")};
  for (const RunColumn& column :
       is_page ? chosen_columns(format, comparison, has_brief) : style.columns) {
    if (!column.heading.empty()) shown.names.insert(column.name);
  }

  Table table{.title = report.title};
  if (!comparison.rows.empty()) table.label = comparison.rows.front().run->experiment;
  table.columns = columns_of_table(style, shown, fits_terminal || is_page);
  const bool has_answers = !is_of_ranks && !has_rows_only && has_usual_columns(report.view);
  for (const RowGroup& group : comparison.groups) {
    table.blocks.push_back(block_of(group, style, has_answers));
    shown.is_device_told = shown.is_device_told || !table.blocks.back().introduction.empty();
  }
  if (has_rows_only) return table;
  if (shown.is_device_told) {
    const std::string remark = device_remark(distinct(mapped(comparison.rows, &RunRow::series)));
    if (!remark.empty()) table.blocks.front().introduction.push_back(remark);
  }
  if (fits_terminal) {
    const ColumnNumbers fitting = lay_out(table, terminal_of(report)).shown;
    table = with_columns(std::move(table), fitting);
    shown.names.clear();
    for (const Column& column : table.columns) shown.names.insert(column.name);
  }
  put_lines_below(table, comparison, shown, format, has_answers);
  std::ranges::copy(differing.lines, std::back_inserter(table.notes));
  if (!is_page) {
    std::ranges::move(reasons_below(comparison, shown), std::back_inserter(table.notes));
  }
  return table;
}

RowKind row_kind_of(Format format, const Report& report) {
  return report.row_kind.value_or(is_for_programs(format) ? RowKind::kRun : RowKind::kSeries);
}

}  // namespace

bool is_for_programs(Format format) {
  return is_among(std::array{Format::kCsv, Format::kJson, Format::kJsonl, Format::kParquet},
                  format);
}

Runs ReportRows::runs() const {
  Runs runs;
  for (const RunRow& row : rows) {
    const Runs of_row = row.is_series() ? row.series->runs : Runs{row.run};
    runs.insert(runs.end(), of_row.begin(), of_row.end());
  }
  return distinct(runs);
}

ReportRows compare(RowKind row_kind, const Report& report) {
  ReportRows comparison{.report = report, .row_kind = row_kind, .series = series_of(report.rows)};
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
  for (const RowGroup& group : comparison.groups) put_marks(comparison.series, group);
  return comparison;
}

std::vector<Warning> warnings_of(const ReportRows& comparison) {
  const auto baseline_group = [](const Series* series) {
    return std::pair(series->median.experiment, series->group);
  };
  const SeriesRows all = distinct(mapped(comparison.rows, &RunRow::series));
  return warnings_for(
      mapped(grouped(all, baseline_group), [](const auto& group) { return group.second; }));
}

std::vector<const ComparisonRow*> shown_runs(Format format, const Report& report) {
  return compare(row_kind_of(format, report), report).runs();
}

std::string render(Format format, const Report& report) {
  const ReportRows comparison = compare(row_kind_of(format, report), report);
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
    case Format::kJsonl:
      return table_jsonl(table);
    case Format::kParquet:
      return table_parquet(table);
    case Format::kLatex:
      return table_latex(table);
    case Format::kHtml:
      return render_page(table, report, series);
  }
  return "";
}

}  // namespace fsdp
