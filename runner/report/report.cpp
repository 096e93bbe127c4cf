#include "runner/report/report.h"

#include <algorithm>
#include <map>
#include <set>

#include "runner/report/brief_columns.h"
#include "runner/report/conditions.h"
#include "runner/report/differing_rows.h"
#include "runner/report/formats.h"

namespace fsdp {
namespace {

bool is_for_programs(Format format) { return format == Format::kCsv || format == Format::kJson; }

ReportRow row_of(const Series& series) {
  return {.run = &series.median, .series = &series, .is_series = true};
}

// Sets the groups of a report. A series' group is its text in the column.
void put_groups(std::deque<Series>& all, const std::string& column_name) {
  if (column_name.empty()) return;
  const Column& column = find_column(columns(), column_name, "--group");
  for (Series& series : all) series.group = text_of(column, row_of(series));
}

std::vector<ReportRow> rows_of(const Report& report, const std::deque<Series>& all,
                               RowKind row_kind) {
  std::vector<ReportRow> rows;
  if (row_kind == RowKind::kSeries) {
    std::ranges::transform(all, std::back_inserter(rows), row_of);
    return rows;
  }
  std::map<int64_t, ReportRow> row_of_run;
  for (const Series& series : all) {
    for (const ComparisonRow* run : series.runs) {
      row_of_run[run->run] = {.run = run, .series = &series};
    }
  }
  if (row_kind == RowKind::kRun) {
    for (const ComparisonRow& run : report.rows) rows.push_back(row_of_run.at(run.run));
    return rows;
  }
  for (const RankRow& rank : report.rank_rows) {
    const auto known = row_of_run.find(rank.run);
    if (known == row_of_run.end()) continue;
    rows.push_back(known->second);
    rows.back().rank = &rank;
  }
  return rows;
}

// Sorts rows by group, in the order of the report, and returns a block per group. Within a group
// the order of rows stays.
std::vector<Block> to_blocks(std::vector<ReportRow>& rows, const std::deque<Series>& all,
                             const std::string& column_name) {
  std::map<std::string, size_t> order;
  for (const Series& series : all) order.emplace(series.group, order.size());
  std::ranges::stable_sort(rows, {}, [&](auto& row) { return order.at(row.series->group); });
  std::vector<Block> blocks;
  for (auto begin = rows.begin(); begin != rows.end();) {
    const std::string& group = begin->series->group;
    const auto end =
        std::find_if(begin, rows.end(), [&](auto& row) { return row.series->group != group; });
    blocks.push_back(
        {.title = column_name.empty() ? "" : column_name + ": " + group, .rows = {begin, end}});
    begin = end;
  }
  return blocks;
}

// True if the column is added to the usual ones and does not replace them.
bool adds(const std::string& word) { return word.starts_with('+'); }
bool has_usual_columns(const View& view) { return std::ranges::all_of(view.columns, adds); }

bool has_brief_columns(Format format, const View& view, RowKind row_kind) {
  return !is_for_programs(format) && row_kind != RowKind::kRank && !view.wide &&
         has_usual_columns(view);
}

// Returns the usual columns. Runs of several experiments have a column with the experiment. Columns
// without a value in any row have no heading.
std::vector<Column> usual_columns(const std::vector<ReportRow>& rows,
                                  std::span<const Column> columns) {
  std::vector<Column> usual(columns.begin(), columns.end());
  const auto several = std::ranges::adjacent_find(
      rows, std::ranges::not_equal_to{}, [](auto& row) -> auto& { return row.run->experiment; });
  for (Column& column : usual) {
    if (column.name == "experiment" && several != rows.end()) column = with_heading(column);
    if (column.is_shown_for && std::ranges::none_of(rows, column.is_shown_for)) {
      column.heading.clear();
    }
  }
  return usual;
}

std::vector<Column> chosen_columns(const View& view, const std::vector<ReportRow>& rows,
                                   std::span<const Column> columns, bool brief) {
  std::vector<Column> chosen;
  if (has_usual_columns(view)) {
    chosen = brief ? brief_columns(rows, columns) : usual_columns(rows, columns);
  }
  for (const std::string& word : view.columns) {
    const std::string name = adds(word) ? word.substr(1) : word;
    const Column column = with_heading(find_column(columns, name, "--columns"));
    const auto there = std::ranges::find(chosen, column.name, &Column::name);
    if (there == chosen.end()) {
      chosen.push_back(column);
    } else {
      *there = column;
    }
  }
  return chosen;
}

std::set<std::string> names_of(const std::vector<Column>& columns) {
  std::set<std::string> names;
  for (const Column& column : columns) names.insert(column.name);
  return names;
}

// Sets the answers if the rows are of one experiment. There are none for several experiments.
void put_answers(Block& block) {
  std::vector<const Series*> rows;
  for (const ReportRow& row : block.rows) {
    if (row.run->experiment != block.rows.front().run->experiment) return;
    if (std::ranges::find(rows, row.series) == rows.end()) rows.push_back(row.series);
  }
  block.answers = answers_for(rows);
  if (!block.answers.empty()) block.set_up = set_up_of(rows);
  block.fastest = fastest_rows(rows);
  block.least_memory = rows_with_least_memory(rows);
}

// Returns the warnings about the rows, grouped by their baseline.
std::vector<Warning> warnings_of(const std::vector<ReportRow>& rows) {
  std::vector<SeriesRows> compared;
  std::map<std::pair<std::string, std::string>, size_t> place;
  std::set<const Series*> seen;
  for (const ReportRow& row : rows) {
    if (!seen.insert(row.series).second) continue;
    const auto [at, is_new] =
        place.emplace(std::pair(row.run->experiment, row.series->group), compared.size());
    if (is_new) compared.emplace_back();
    compared[at->second].push_back(row.series);
  }
  return warnings_for(compared);
}

// Adds a mark to the points of these runs.
void mark(std::vector<Column>& columns, const std::set<const ComparisonRow*>& runs) {
  const auto points = std::ranges::find(columns, "point", &Column::name);
  if (runs.empty() || points == columns.end()) return;
  points->text = [runs, usual = *points](const ReportRow& row) {
    return text_of(usual, row) + (runs.contains(row.run) ? " *" : "");
  };
}

}  // namespace

PreparedReport prepare(Format format, const Report& report) {
  const View& view = report.view;
  const RowKind row_kind =
      report.row_kind.value_or(is_for_programs(format) ? RowKind::kRun : RowKind::kSeries);
  const std::span<const Column> all = row_kind == RowKind::kRank ? rank_columns() : columns();
  PreparedReport prepared{.report = report, .series = series_of(report.rows)};
  put_groups(prepared.series, view.group);
  put_baselines(prepared.series, view.baseline);
  put_ratios(prepared.series);
  put_scaling(prepared.series);
  prepared.rows = rows_of(report, prepared.series, row_kind);
  filter(prepared.rows, view.where, all);
  sort(prepared.rows, view.sort, all);
  prepared.blocks = to_blocks(prepared.rows, prepared.series, view.group);
  if (row_kind != RowKind::kRank && has_usual_columns(view)) {
    std::ranges::for_each(prepared.blocks, put_answers);
  }
  const bool has_brief = has_brief_columns(format, view, row_kind);
  prepared.is_brief = has_brief && format != Format::kHtml;
  prepared.columns = chosen_columns(view, prepared.rows, all, prepared.is_brief);
  prepared.shown_at_first = names_of(chosen_columns(view, prepared.rows, all, has_brief));
  const DifferingRows differing =
      row_kind == RowKind::kRank ? DifferingRows() : differing_rows(prepared.rows);
  mark(prepared.columns, differing.runs);
  prepared.fits_terminal =
      format == Format::kTable &&
      (prepared.is_brief || (row_kind == RowKind::kRank && !view.wide && has_usual_columns(view)));
  if (prepared.fits_terminal) keep_columns_that_fit(prepared);
  prepared.warnings = warnings_of(prepared.rows);
  prepared.lines = lines_below(prepared);
  std::ranges::copy(differing.lines, std::back_inserter(prepared.lines));
  prepared.reasons = reasons_below(prepared);
  return prepared;
}

std::vector<const ComparisonRow*> shown_runs(const PreparedReport& prepared) {
  std::vector<const ComparisonRow*> runs;
  std::set<const ComparisonRow*> known;
  const auto add = [&](const ComparisonRow* run) {
    if (known.insert(run).second) runs.push_back(run);
  };
  for (const ReportRow& row : prepared.rows) {
    if (row.is_series) {
      std::ranges::for_each(row.series->runs, add);
    } else {
      add(row.run);
    }
  }
  return runs;
}

std::string render(Format format, const Report& report) {
  return render(format, prepare(format, report));
}

std::string render(Format format, PreparedReport prepared) {
  constexpr std::array kRender{render_table, render_markdown, render_csv,
                               render_json,  render_latex,    render_html};
  static_assert(kRender.size() == enum_names(Format{}).size());
  if (!is_for_programs(format)) {
    std::erase_if(prepared.columns, [](const Column& column) { return column.heading.empty(); });
  }
  if (prepared.shown_at_first.empty()) prepared.shown_at_first = names_of(prepared.columns);
  return kRender[static_cast<size_t>(format)](prepared);
}

}  // namespace fsdp
