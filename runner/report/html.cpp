#include <algorithm>

#include "contract/text/json.h"
#include "runner/report/formats.h"
#include "runner/report/html_assets.h"
#include "runner/report/html_page.h"

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

JsonObject run_data(const ComparisonRow& run, const RunDetail& detail) {
  std::vector<JsonObject> utilization;
  for (const UtilizationCurve& curve : detail.utilization) {
    JsonObject data;
    data.add("host", curve.host).add("device", curve.device).add("own", curve.own);
    utilization.push_back(add_curve(data, curve.percent));
  }
  return JsonObject()
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

JsonObject column_data(const Column& column, bool is_shown_at_first) {
  return JsonObject()
      .add("name", column.name)
      .add("heading", column.heading)
      .add("documentation", column.documentation)
      .add("right", column.alignment == Alignment::kRight)
      .add("shown_at_first", is_shown_at_first);
}

JsonObject answer_data(const Answer& answer) {
  return JsonObject().add("question", answer.question).add("text", answer.text);
}

JsonObject block_data(const Block& block, const std::vector<Column>& columns) {
  using Cell = std::vector<Value>;  // the value, and its text
  std::vector<std::vector<Cell>> rows;
  for (const ReportRow& row : block.rows) {
    std::vector<Cell>& cells = rows.emplace_back();
    for (const Column& column : columns) {
      cells.push_back({column.value(row), text_of(column, row)});
    }
  }
  std::vector<JsonObject> answers;
  std::ranges::transform(block.answers, std::back_inserter(answers), answer_data);
  return JsonObject()
      .add("title", block.title)
      .add("set_up", block.set_up)
      .add("answers", answers)
      .add("rows", rows);
}

// What html/report.js reads.
std::string page_data(const PreparedReport& prepared) {
  const Report& report = prepared.report;
  std::vector<JsonObject> columns, blocks, runs;
  std::vector<std::string> warnings;
  for (const Column& column : prepared.columns) {
    columns.push_back(column_data(column, prepared.shown_at_first.contains(column.name)));
  }
  for (const Block& block : prepared.blocks) {
    blocks.push_back(block_data(block, prepared.columns));
  }
  std::ranges::transform(prepared.warnings, std::back_inserter(warnings), &Warning::text);
  for (const RunDetail& detail : report.html.runs) {
    const auto row = std::ranges::find(report.rows, detail.run, &ComparisonRow::run);
    runs.push_back(run_data(*row, detail));
  }
  JsonObject texts;
  for (const auto& [digest, text] : report.html.experiment_texts) texts.add(digest, text);
  return JsonObject()
      .add("results", report.results)
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
  return html_page(
      {.title = report.title.empty() ? "Runs in " + report.results.string() : report.title,
       .sections = kReportSections,
       .script = kReportScript,
       .data = page_data(prepared)});
}

}  // namespace fsdp
