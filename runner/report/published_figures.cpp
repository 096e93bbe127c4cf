#include "runner/report/published_figures.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "contract/spec/yaml_value.h"
#include "runner/report/formats.h"
#include "runner/report/member_columns.h"
#include "runner/report/names.h"
#include "runner/report/number_text.h"

namespace fsdp {
namespace {

using enum Alignment;

std::string word_for(const Verdict& verdict, bool has_run) {
  if (!has_run) return "no run";
  if (!verdict.measured) return "not measured";
  const PublishedFigure& published = *verdict.published;
  if (!published.tolerance) return "not judged";
  const double allowed = *published.tolerance * std::abs(published.value);
  return std::abs(*verdict.measured - published.value) <= allowed ? "ok" : "differs";
}

Verdict verdict_of(const PublishedFigure& published, const Series* series) {
  Verdict verdict{.published = &published,
                  .column = find_column(columns(), published.column, "--reference"),
                  .measured = {},
                  .word = {}};
  if (series != nullptr && series->finished_count > 0) {
    verdict.measured = number_of(
        verdict.column.value({.run = &series->median, .series = series, .is_series = true}));
  }
  verdict.word = word_for(verdict, series != nullptr && series->median.attempt.has_value());
  return verdict;
}

// Adds a unit and has more digits than a table, because a published figure is shown as published.
std::string figure_text(const ReportRow& row, std::optional<double> figure) {
  if (!figure) return "-";
  const std::string& name = row.verdict->published->column;
  if (name.find("_time_ms") != std::string::npos) return duration(figure);
  const bool is_bytes = name.find("_bytes") != std::string::npos;
  if (is_bytes) return decimals(*figure / kBytesPerGibibyte, 2) + " GiB";
  return fmt::format("{:.4g}", *figure);
}

std::string tolerance_text(std::optional<double> tolerance) {
  return tolerance ? three_digits(100 * *tolerance) + " %" : "-";
}

std::vector<Column> verdict_columns() {
  return {
      {"point", "point", "Name of the point.", kLeft,
       [](auto& row) { return Value(row.verdict->published->point); }},
      {"column", "column", "Name of the column.", kLeft,
       [](auto& row) { return Value(row.verdict->column.name); }},
      {"published", "published", "The published figure.", kRight,
       [](auto& row) { return Value(row.verdict->published->value); },
       [](auto& row) { return figure_text(row, row.verdict->published->value); }},
      {"measured", "measured", "The figure of the runs, the median of repeats.", kRight,
       [](auto& row) { return to_value(row.verdict->measured); },
       [](auto& row) { return figure_text(row, row.verdict->measured); }},
      {"ratio", "ratio", "measured / published.", kRight,
       [](auto& row) { return to_value(row.verdict->ratio()); },
       [](auto& row) { return ratio(row.verdict->ratio()); }},
      {"tolerance", "tolerance", "Relative difference that is allowed.", kRight,
       [](auto& row) { return to_value(row.verdict->published->tolerance); },
       [](auto& row) { return tolerance_text(row.verdict->published->tolerance); }},
      {"verdict", "verdict", "ok, differs, not judged, not measured, or no run.", kLeft,
       [](auto& row) { return Value(row.verdict->word); }},
      {"note",
       "note",
       "What is to be known of the published figure.",
       kLeft,
       [](auto& row) { return Value(row.verdict->published->note); },
       {},
       [](auto& row) { return !row.verdict->published->note.empty(); }},
  };
}

std::vector<std::string> lines_of(const Report& report, const Reference& reference,
                                  const std::vector<Verdict>& verdicts,
                                  const std::deque<Series>& all) {
  std::vector<std::string> lines;
  const auto add = [&](const char* what, const auto& names) {
    if (!names.empty()) lines.push_back(fmt::format("{}: {}.", what, joined_names(names)));
  };
  if (!reference.source.empty()) lines.push_back("Published: " + reference.source + ".");
  std::set<std::string> devices;
  for (const ComparisonRow& run : report.rows) {
    if (!run.device_name.empty()) devices.insert(run.device_name);
  }
  add("Measured on", devices);
  std::vector<std::string> without_run, without_reference;
  for (const std::string& point : reference.points) {
    const auto is_missing = [&](const Verdict& verdict) {
      return verdict.published->point == point && verdict.word == "no run";
    };
    if (std::ranges::any_of(verdicts, is_missing)) without_run.push_back(point);
  }
  add("Published, and without a run here", without_run);
  for (const Series& series : all) {
    const std::string& point = series.median.point;
    if (std::ranges::find(reference.points, point) == reference.points.end()) {
      without_reference.push_back(point);
    }
  }
  add("Run here, and not published", without_reference);
  const auto count = [&](std::string_view word) {
    return std::ranges::count(verdicts, word, &Verdict::word);
  };
  lines.push_back(fmt::format("{} within the tolerance, {} outside, {} not judged.",
                              counted(count("ok"), "figure"), count("differs"),
                              count("not judged")));
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return lines;
}

}  // namespace

std::optional<double> Verdict::ratio() const {
  if (!measured || published->value == 0) return std::nullopt;
  return *measured / published->value;
}

ReferenceReport render_reference(Format format, const Report& report, const Reference& reference) {
  const std::deque<Series> all = series_of(report.rows);
  std::vector<Verdict> verdicts;
  for (const PublishedFigure& published : reference.figures) {
    const auto series = std::ranges::find_if(
        all, [&](const Series& one) { return one.median.point == published.point; });
    verdicts.push_back(verdict_of(published, series == all.end() ? nullptr : &*series));
  }
  PreparedReport prepared{.report = report,
                          .columns = verdict_columns(),
                          .lines = lines_of(report, reference, verdicts, all)};
  const ComparisonRow none;
  for (const Verdict& verdict : verdicts) {
    prepared.rows.push_back({.run = &none, .verdict = &verdict});
  }
  prepared.blocks = {{.rows = prepared.rows}};
  Column& note = prepared.columns.back();
  if (std::ranges::none_of(prepared.rows, note.is_shown_for)) note.heading.clear();
  return {.text = render(format, std::move(prepared)),
          .passed = std::ranges::count(verdicts, "differs", &Verdict::word) == 0 &&
                    std::ranges::count(verdicts, "ok", &Verdict::word) > 0};
}

}  // namespace fsdp
