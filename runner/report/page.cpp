#include <algorithm>

#include "base/text/json.h"
#include "runner/page/html_page.h"
#include "runner/report/comparison.h"
#include "runner/series/speeds.h"
#include "runner/table/names.h"

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

JsonObject column_data(const Column& column, bool has_more) {
  return JsonObject()
      .add("name", column.name)
      .add("heading", column.heading)
      .add("documentation", column.documentation)
      .add("right", !column.is_left)
      .add("shown_at_first", column.is_shown_first)
      .add("shown_if_narrow", !has_more || column.drop_order == 0);
}

JsonObject row_data(const Row& row) {
  std::vector<std::vector<Value>> cells;  // of each: the value, its text, its brief text
  for (size_t i = 0; i < row.cells.size(); ++i) {
    const auto& [value, text, style] = row.cells[i];
    cells.push_back({value, text, row.brief_texts.empty() ? text : row.brief_texts[i]});
  }
  return JsonObject().add("cells", cells).add("best", row.best_columns).add("reason", row.reason);
}

JsonObject block_data(const Block& block) {
  std::vector<JsonObject> answers, rows;
  for (const auto& [question, text] : block.answers) {
    answers.push_back(JsonObject().add("question", question).add("text", text));
  }
  std::ranges::transform(block.rows, std::back_inserter(rows), row_data);
  return JsonObject()
      .add("title", block.title)
      .add("set_up", joined_texts(block.introduction, " "))
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
  const RunColumn& strategy = find_column(columns(), "strategy", "");
  return JsonObject()
      .add("experiment", run.experiment)
      .add("point", run.point)
      .add("base", base.median.point)
      .add("kind", name_of(series.scaling->kind))
      .add("strategy", strategy.text_for({.run = &run, .series = &series}))
      .add("ranks", run.ranks)
      .add("tokens_per_second", run.tokens_per_second)
      .add("efficiency_percent", scaling_efficiency_percent(series.scaling, run));
}

// Returns the data that html/report.js reads.
std::string page_data(const Table& table, const Report& report, const std::deque<Series>& series) {
  std::vector<JsonObject> columns, blocks, runs, experiments, scaling;
  std::vector<std::string> warnings;
  const bool has_more = !std::ranges::all_of(table.columns, &Column::is_shown_first);
  for (const Column& column : table.columns) columns.push_back(column_data(column, has_more));
  std::ranges::transform(table.blocks, std::back_inserter(blocks), block_data);
  std::ranges::transform(table.warnings, std::back_inserter(warnings), &Warning::text);
  for (const RunDetail& detail : report.html.runs) {
    const auto row = std::ranges::find(report.rows, detail.run, &ComparisonRow::run);
    runs.push_back(run_data(*row, detail, name_of_run(*row, series)));
  }
  SeriesRows all_rows;
  for (const Series& one : series) {
    all_rows.push_back(&one);
    if (one.scaling) scaling.push_back(scaling_data(one));
  }
  std::ranges::transform(report.html.experiments, std::back_inserter(experiments), experiment_data);
  JsonObject texts;
  for (const auto& [digest, text] : report.html.experiment_texts) texts.add(digest, text);
  const SpeedComparison speeds(all_rows);
  const PageHead& head = report.html.head;
  const std::string question = head.title.empty() ? "" : table.title;
  return JsonObject()
      .add("head", JsonObject().add("question", question).add("author", head.author))
      .add("speed", JsonObject().add("figure", speeds.column_name()).add("unit", speeds.unit()))
      .add("results", report.results)
      .add("experiments", experiments)
      .add("scaling", scaling)
      .add("runs_total", report.html.run_count)
      .add("columns", columns)
      .add("blocks", blocks)
      .add("warnings", warnings)
      .add("notes", table.notes)
      .add("runs", runs)
      .add("experiment_texts", texts)
      .text();
}

}  // namespace

Curve thinned(std::vector<CurvePoint> series) {
  constexpr size_t kParts = 249;
  constexpr size_t kMostPoints = 2 * kParts + 2;
  const size_t measured = series.size();
  if (measured <= kMostPoints) return {.points = std::move(series), .measured = measured};
  std::vector<CurvePoint> points{series.front()};
  const size_t inner = measured - 2;
  for (size_t part = 0; part < kParts; ++part) {
    const auto begin = series.begin() + static_cast<std::ptrdiff_t>(1 + part * inner / kParts);
    const auto end = series.begin() + static_cast<std::ptrdiff_t>(1 + (part + 1) * inner / kParts);
    const auto [least, greatest] = std::minmax_element(
        begin, end, [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; });
    points.push_back(*std::min(least, greatest));
    if (least != greatest) points.push_back(*std::max(least, greatest));
  }
  points.push_back(series.back());
  return {.points = std::move(points), .measured = measured};
}

std::string render_page(const Table& table, const Report& report,
                        const std::deque<Series>& series) {
  const PageHead& head = report.html.head;
  const std::string title =
      table.title.empty() ? "Runs in " + report.results.string() : table.title;
  return html_page({.title = head.title.empty() ? title : head.title,
                    .sections = kReportSections,
                    .script = kReportScript,
                    .data = page_data(table, report, series),
                    .notes = head.notes});
}

}  // namespace fsdp
