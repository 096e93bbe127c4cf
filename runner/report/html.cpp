#include <algorithm>

#include "contract/text/json.h"
#include "runner/report/brief_columns.h"
#include "runner/report/formats.h"
#include "runner/report/html_assets.h"
#include "runner/report/html_page.h"
#include "runner/report/speeds.h"

namespace fsdp {
namespace {

JsonObject& add_curve(JsonObject& object, const Curve& curve) {
  std::vector<double> x;
  std::vector<std::optional<double>> y;
  for (const CurvePoint& point : curve.points) {
    x.push_back(point.x);
    y.push_back(point.y);
  }
  return object.add("measured", curve.measured).add("x", x).add("y", y);
}

JsonObject curve_data(const Curve& curve) {
  JsonObject data;
  return add_curve(data, curve);
}

// Returns the name of the run's series as in answers, and the number of the repeat.
std::string name_of_run(const ComparisonRow& run, const std::deque<Series>& all) {
  const auto series = std::ranges::find_if(all, [&](const Series& one) { return one.has(&run); });
  return series == all.end() ? run.point : series->name_of_run(run);
}

JsonObject run_data(const ComparisonRow& run, const RunDetail& detail, const std::string& name) {
  std::vector<JsonObject> utilization;
  for (const UtilizationCurve& curve : detail.utilization) {
    JsonObject data;
    data.add("host", curve.host).add("device", curve.device).add("own", curve.own);
    utilization.push_back(add_curve(data, curve.percent));
  }
  return JsonObject()
      .add("name", name)
      .add("figures", run)
      .add("specification", detail.specification)
      .add("provenance", detail.provenance)
      .add("attempts", detail.attempts)
      .add("ranks", detail.ranks)
      .add("rank_facts", detail.rank_facts)
      .add("checkpoints", detail.checkpoints)
      .add("training_loss", curve_data(detail.training_loss))
      .add("validation_loss", curve_data(detail.validation_loss))
      .add("utilization", utilization);
}

JsonObject column_data(const Column& column, const std::set<std::string>& shown_at_first,
                       bool has_more) {
  return JsonObject()
      .add("name", column.name)
      .add("heading", column.heading)
      .add("documentation", column.documentation)
      .add("right", column.alignment == Alignment::kRight)
      .add("shown_at_first", shown_at_first.contains(column.name))
      .add("shown_if_narrow", !has_more || goes(column) == 0);
}

JsonObject answer_data(const Answer& answer) {
  return JsonObject().add("question", answer.question).add("text", answer.text);
}

bool is_among(const SeriesRows& rows, const ReportRow& row) {
  return std::ranges::find(rows, row.series) != rows.end();
}

// Returns the columns in which no row is better than this one. Empty if all rows are equal.
std::vector<std::string> best_columns(const ReportRow& row, const Block& block) {
  std::vector<std::string> names;
  if (is_among(block.fastest.rows, row)) names.push_back(block.fastest.column);
  if (is_among(block.least_memory, row)) names.push_back("memory_allocated_bytes_max");
  return names;
}

JsonObject row_data(const ReportRow& row, const Block& block, const std::vector<Column>& columns) {
  using Cell = std::vector<Value>;  // the value, its text, its brief text
  std::vector<Cell> cells;
  for (const Column& column : columns) {
    cells.push_back({column.value(row), text_of(column, row), text_of(in_brief(column), row)});
  }
  return JsonObject()
      .add("cells", cells)
      .add("best", best_columns(row, block))
      .add("reason", row.run->reason);
}

JsonObject block_data(const Block& block, const std::vector<Column>& columns) {
  std::vector<JsonObject> answers, rows;
  std::ranges::transform(block.answers, std::back_inserter(answers), answer_data);
  for (const ReportRow& row : block.rows) rows.push_back(row_data(row, block, columns));
  return JsonObject()
      .add("title", block.title)
      .add("set_up", block.set_up)
      .add("answers", answers)
      .add("rows", rows);
}

JsonObject experiment_data(const ExperimentRecord& experiment) {
  return JsonObject()
      .add("name", experiment.name)
      .add("file", experiment.file.filename())
      .add("profile", experiment.profile);
}

// Returns the data of a row that has a base or is one.
JsonObject scaling_data(const Series& series) {
  const ComparisonRow& run = series.median;
  const Series& base = *series.scaling->base;
  const Column& strategy = find_column(columns(), "strategy", "");
  return JsonObject()
      .add("experiment", run.experiment)
      .add("point", run.point)
      .add("base", base.median.point)
      .add("kind", name_of(series.scaling->kind))
      .add("strategy", text_of(strategy, {.run = &run, .series = &series, .is_series = true}))
      .add("ranks", run.ranks)
      .add("tokens_per_second", run.tokens_per_second)
      .add("efficiency_percent", scaling_efficiency_percent(series.scaling, run));
}

JsonObject head_data(const Report& report) {
  const PageHead& head = report.html.head;
  return JsonObject()
      .add("question", head.title.empty() ? std::string() : report.title)
      .add("author", head.author);
}

// Returns the data that html/report.js reads.
std::string page_data(const PreparedReport& prepared) {
  const Report& report = prepared.report;
  std::vector<JsonObject> columns, blocks, runs, experiments, scaling;
  std::vector<std::string> warnings;
  const bool has_more = std::ranges::any_of(prepared.columns, [&](const Column& column) {
    return !prepared.shown_at_first.contains(column.name);
  });
  for (const Column& column : prepared.columns) {
    columns.push_back(column_data(column, prepared.shown_at_first, has_more));
  }
  for (const Block& block : prepared.blocks) {
    blocks.push_back(block_data(block, prepared.columns));
  }
  std::ranges::transform(prepared.warnings, std::back_inserter(warnings), &Warning::text);
  for (const RunDetail& detail : report.html.runs) {
    const auto row = std::ranges::find(report.rows, detail.run, &ComparisonRow::run);
    runs.push_back(run_data(*row, detail, name_of_run(*row, prepared.series)));
  }
  SeriesRows all_rows;
  for (const Series& series : prepared.series) {
    all_rows.push_back(&series);
    if (series.scaling) scaling.push_back(scaling_data(series));
  }
  std::ranges::transform(report.html.experiments, std::back_inserter(experiments), experiment_data);
  JsonObject texts;
  for (const auto& [digest, text] : report.html.experiment_texts) texts.add(digest, text);
  const SpeedComparison speeds(all_rows);
  return JsonObject()
      .add("head", head_data(report))
      .add("speed", JsonObject().add("figure", speeds.column_name()).add("unit", speeds.unit()))
      .add("results", report.results)
      .add("experiments", experiments)
      .add("scaling", scaling)
      .add("runs_total", report.html.run_count)
      .add("columns", columns)
      .add("blocks", blocks)
      .add("warnings", warnings)
      .add("notes", prepared.lines)
      .add("runs", runs)
      .add("experiment_texts", texts)
      .text();
}

}  // namespace

std::string render_html(const PreparedReport& prepared) {
  const Report& report = prepared.report;
  const PageHead& head = report.html.head;
  const std::string title =
      report.title.empty() ? "Runs in " + report.results.string() : report.title;
  return html_page({.title = head.title.empty() ? title : head.title,
                    .sections = kReportSections,
                    .script = kReportScript,
                    .data = page_data(prepared),
                    .notes = head.notes});
}

}  // namespace fsdp
