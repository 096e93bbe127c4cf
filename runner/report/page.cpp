// Writes a report's data for the scripts of its page.
#include <algorithm>
#include <map>

#include "base/files/input_file.h"
#include "base/text/json.h"
#include "runner/page/html_page.h"
#include "runner/report/columns.h"
#include "runner/series/speeds.h"
#include "runner/store/run_files.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

JsonObject with_curve(JsonObject object, const Curve& curve) {
  return object.add("measured", curve.measured)
      .add("x", mapped(curve.points, &CurvePoint::x))
      .add("y", mapped(curve.points, &CurvePoint::y));
}

JsonObject utilization_data(const UtilizationCurve& curve) {
  JsonObject data;
  data.add("host", curve.host).add("device", curve.device).add("own", curve.own);
  return with_curve(data, curve.percent);
}

// A span of a trace is [kind, name, unit or -1, begin, time], in microseconds. Names are numbers of
// `names`.
JsonObject traces_data(const RankTraces& traces) {
  std::vector<std::string> names;
  std::map<std::string, int64_t> numbers;
  const auto number_of = [&](const std::string& name) {
    const auto [found, is_new] = numbers.try_emplace(name, std::ssize(names));
    if (is_new) names.push_back(name);
    return found->second;
  };
  const auto span_data = [&](const TraceSpan& span) {
    const int64_t begin_us = span.begin_ns / 1000;
    return std::vector<int64_t>{static_cast<int64_t>(span.kind), number_of(span.name),
                                span.unit.value_or(-1), begin_us,
                                (span.begin_ns + span.time_ns) / 1000 - begin_us};
  };
  std::vector<JsonObject> ranks;
  for (const auto& [rank, trace] : traces) {
    const auto step_data = [&](const StepTrace& step) {
      return JsonObject()
          .add("step", step.step)
          .add("begin_unix_ms", step.begin_unix_ms)
          .add("spans", mapped(step.spans, span_data));
    };
    ranks.push_back(JsonObject()
                        .add("rank", rank.rank)
                        .add("host", rank.host)
                        .add("steps", mapped(trace.steps, step_data)));
  }
  return JsonObject().add("ranks", ranks).add("names", names);
}

// Names the run as answers do: by its series and the number of the repeat.
std::string name_of_run(const ComparisonRow& run, const std::deque<Series>& all) {
  const auto series = std::ranges::find_if(all, [&](const Series& one) { return one.has(&run); });
  return series == all.end() ? run.point : series->name_of_run(run);
}

JsonObject run_data(const RunDetail& detail, const Report& report, const std::deque<Series>& all) {
  const ComparisonRow& run = *std::ranges::find(report.rows, detail.run, &ComparisonRow::run);
  return JsonObject()
      .add("name", name_of_run(run, all))
      .add("figures", run)
      .add("seed", run.spec.train.seed)
      .add("doubt", doubt_of(run))
      .add("specification", detail.specification)
      .add("provenance", detail.provenance)
      .add("attempts", detail.attempts)
      .add("ranks", detail.ranks)
      .add("rank_facts", detail.rank_facts)
      .add("checkpoints", detail.checkpoints)
      .add("memory_peak", detail.memory_peak)
      .add("traces", traces_data(detail.traces))
      .add("step_memory", detail.step_memory)
      .add("training_loss", with_curve({}, detail.training_loss))
      .add("validation_loss", with_curve({}, detail.validation_loss))
      .add("utilization", mapped(detail.utilization, utilization_data));
}

// Returns what `diverge` said of the two runs that are farthest apart. Empty if it was not asked.
std::string divergence_of(const LossAgreement& agreement, const std::filesystem::path& results) {
  constexpr size_t kLargestAnswer = 1 << 16;
  if (!agreement.parting) return "";
  const std::filesystem::path file = divergence_file(results, agreement.parting->least.run->run,
                                                     agreement.parting->greatest.run->run);
  std::error_code not_there;
  if (!std::filesystem::is_regular_file(file, not_there)) return "";
  return read_input_file(file, kLargestAnswer);
}

// Returns how far losses that must be equal are apart, and how far they may be.
JsonObject loss_differences_data(const LossAgreement& agreement, const Report& report,
                                 const std::deque<Series>& all) {
  const auto curve_of = [&](double StepDifference::*figure) {
    std::vector<CurvePoint> points;
    for (const StepDifference& of : agreement.differences) {
      const bool is_drawn = of.*figure > 0 && std::isfinite(of.*figure);  // on a logarithmic scale
      points.push_back({.x = static_cast<double>(of.step),
                        .y = is_drawn ? std::optional(of.*figure) : std::nullopt});
    }
    return with_curve({}, thinned(std::move(points)));
  };
  return JsonObject()
      .add("runs", mapped(agreement.runs, [&](auto* run) { return name_of_run(*run, all); }))
      .add("difference", curve_of(&StepDifference::difference))
      .add("allowed", curve_of(&StepDifference::allowed))
      .add("parting_step",
           agreement.parting ? std::optional(agreement.parting->step) : std::nullopt)
      .add("divergence", divergence_of(agreement, report.results));
}

JsonObject row_data(const Row& row) {
  std::vector<std::vector<Value>> cells;  // each: value, text, brief text
  for (size_t i = 0; i < row.cells.size(); ++i) {
    const auto& [value, text, style] = row.cells[i];
    cells.push_back({value, text, row.brief_texts.empty() ? text : row.brief_texts[i]});
  }
  return JsonObject().add("cells", cells).add("best", row.best_columns).add("reason", row.reason);
}

JsonObject block_data(const Block& block) {
  const auto answer_data = [](const Answer& answer) {
    return JsonObject().add("question", answer.question).add("text", answer.text);
  };
  return JsonObject()
      .add("title", block.title)
      .add("set_up", joined_texts(block.introduction, " "))
      .add("legend", block.legend)
      .add("answers", mapped(block.answers, answer_data))
      .add("rows", mapped(block.rows, row_data));
}

JsonObject experiment_data(const ExperimentRecord& experiment) {
  return JsonObject().add("name", experiment.name).add("file", experiment.file.filename());
}

// Returns the data of a row that has a scaling base or is one.
JsonObject scaling_data(const Series* series) {
  const ComparisonRow& run = series->median;
  return JsonObject()
      .add("experiment", run.experiment)
      .add("point", run.point)
      .add("base", series->scaling->base->median.point)
      .add("kind", name_of(series->scaling->kind))
      .add("strategy",
           find_column(columns(), "strategy", "").text_for({.run = &run, .series = series}))
      .add("ranks", run.spec.strategy.ranks)
      .add("tokens_per_second", run.tokens_per_second)
      .add("efficiency_percent", scaling_efficiency_percent(series->scaling, run));
}

// Returns the data that html/report.js reads.
std::string page_data(const Table& table, const Report& report, const std::deque<Series>& all) {
  const HtmlDetail& html = report.html;
  const bool has_more = !std::ranges::all_of(table.columns, &Column::is_shown_first);
  const auto column_data = [&](const Column& column) {
    return JsonObject()
        .add("name", column.name)
        .add("heading", column.heading)
        .add("documentation", column.documentation)
        .add("right", !column.is_left)
        .add("shown_at_first", column.is_shown_first)
        .add("shown_if_narrow", !has_more || column.drop_order == 0);
  };
  const SeriesRows rows = mapped(all, [](const Series& one) { return &one; });
  const SeriesRows scaled = only(rows, [](auto* one) { return one->scaling.has_value(); });
  JsonObject texts;
  for (const auto& [digest, text] : html.experiment_texts) texts.add(digest, text);
  const std::string question = html.head.title.empty() ? "" : table.title;
  return JsonObject()
      .add("head", JsonObject()
                       .add("question", question)
                       .add("author", html.head.author)
                       .add("notes", html.head.notes))
      .add("results", report.results)
      .add("experiments", mapped(html.experiments, experiment_data))
      .add("commands", html.commands)
      .add("scaling", mapped(scaled, scaling_data))
      .add("runs_total", html.run_count)
      .add("columns", mapped(table.columns, column_data))
      .add("blocks", mapped(table.blocks, block_data))
      .add("warnings", mapped(table.warnings, &Warning::text))
      .add("notes", table.notes)
      .add("loss_differences",
           mapped(loss_agreements(rows),
                  [&](auto& agreement) { return loss_differences_data(agreement, report, all); }))
      .add("runs", mapped(html.runs, [&](auto& detail) { return run_data(detail, report, all); }))
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
                    .data = page_data(table, report, series)});
}

}  // namespace fsdp
