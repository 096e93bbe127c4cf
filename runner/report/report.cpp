#include "runner/report/report.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "runner/report/formats.h"
#include "trainer/contract/run_paths.h"

namespace fsdp {
namespace {

std::vector<ReportRow> rows_of_runs(const std::vector<ComparisonRow>& runs) {
  std::vector<ReportRow> rows;
  for (const ComparisonRow& run : runs) {
    const auto baseline = std::ranges::find_if(runs, [&](const ComparisonRow& candidate) {
      return candidate.experiment == run.experiment && candidate.status == RunStatus::kFinished;
    });
    rows.push_back({.run = &run, .baseline = baseline == runs.end() ? nullptr : &*baseline});
  }
  return rows;
}

std::vector<ReportRow> rows_of_ranks(const Report& report) {
  std::vector<ReportRow> rows;
  for (const RankRow& rank : report.rank_rows) {
    const auto run = std::ranges::find(report.rows, rank.run, &ComparisonRow::run);
    if (run != report.rows.end()) rows.push_back({.run = &*run, .rank = &rank});
  }
  return rows;
}

// "4xDDP: failed: rank 2 killed by signal 9; log: results/runs/.../attempt-1/rank2.log"
std::string reason_line(const ComparisonRow& run, const std::filesystem::path& results) {
  std::string line = run.point + ": " + std::string(name_of(run.status)) + ": " + run.reason;
  if (run.attempt) {
    const RunPaths paths(results / run.folder);
    const int attempt = static_cast<int>(*run.attempt);
    line += run.reason_rank
                ? "; log: " + paths.log(attempt, static_cast<int>(*run.reason_rank)).string()
                : "; logs: " + paths.attempt(attempt).string();
  }
  return line;
}

// "4xDDP: resumed from step 20; its figures are of the steps since."
std::string resumed_line(const ComparisonRow& run) {
  return run.point + ": resumed from step " + std::to_string(*run.resumed_from_step) +
         "; its figures are of the steps since.";
}

template <typename Items>
std::string joined(const Items& items) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += item;
  }
  return text;
}

// ", the first 2 steps left out as warm-up"; a step time is of all steps where no more were done.
std::string warmup_remark(const Report& report, std::span<const ReportRow> rows) {
  std::set<std::string> warmups;
  std::set<std::string> without;
  for (const ReportRow& row : rows) {
    const std::optional<int64_t> steps = report.per_rank ? row.rank->steps : row.run->steps;
    if (steps.value_or(0) == 0) continue;
    const int64_t warmup = row.run->warmup_steps_excluded;
    if (*steps > warmup) {
      warmups.insert(std::to_string(warmup));
    } else {
      without.insert(row.run->point);
    }
  }
  if (warmups.empty()) {
    return without.empty() ? "" : ", no step left out as warm-up, for no more were done";
  }
  const std::string text = ", the first " + joined(warmups) + " steps left out as warm-up";
  return without.empty() ? text : text + " (none of " + joined(without) + ", which did no more)";
}

// What the figures are.
std::string figures_line(const Report& report, std::span<const ReportRow> rows) {
  std::set<std::string> devices;
  bool measured = false;
  bool on_cpu = false;
  for (const ComparisonRow& run : report.rows) {
    if (!run.steps) continue;
    measured = true;
    if (!run.device_name.empty()) devices.insert(run.device_name);
    on_cpu = on_cpu || run.device == DeviceKind::kCpu;
  }
  if (!measured) return {};
  std::string line = report.per_rank
                         ? "Step time: median of the rank's steps"
                         : "Step time: median of the slowest rank ± interquartile range";
  line += warmup_remark(report, rows) + ". Memory: each rank's ";
  line += report.per_rank ? "peak over all steps." : "peak over all steps, least-most.";
  if (!devices.empty()) line += " Device: " + joined(devices) + ".";
  if (on_cpu) line += " CPU timings: they say nothing about a GPU.";
  return line;
}

std::string ratios_line(std::span<const ReportRow> rows) {
  std::vector<std::string> names;
  const ComparisonRow* last = nullptr;
  for (const ReportRow& row : rows) {
    if (row.baseline && row.baseline != last) names.push_back(row.baseline->point);
    last = row.baseline;
  }
  if (names.empty()) return {};
  return "Ratios are to the first row that finished: " + joined(names) + ".";
}

std::vector<std::string> lines_below(const Report& report, std::span<const ReportRow> rows) {
  std::vector<std::string> lines;
  for (const ComparisonRow& run : report.rows) {
    if (!run.reason.empty()) lines.push_back(reason_line(run, report.results));
    if (run.resumed_from_step.value_or(0) > 0) lines.push_back(resumed_line(run));
  }
  for (std::string line : {figures_line(report, rows), ratios_line(rows)}) {
    if (!line.empty()) lines.push_back(std::move(line));
  }
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return lines;
}

// Runs of several experiments are told apart by a column of their own; columns that no run has
// something for are not shown.
std::vector<Column> columns_for(const Report& report) {
  const auto source = report.per_rank ? rank_columns() : columns();
  std::vector<Column> chosen(source.begin(), source.end());
  const auto several = std::ranges::adjacent_find(report.rows, std::ranges::not_equal_to{},
                                                  &ComparisonRow::experiment);
  if (several != report.rows.end()) {
    chosen.front().heading = "experiment";
    chosen.front().text = [](const ReportRow& row) { return row.run->experiment; };
  }
  for (Column& column : chosen) {
    if (column.is_shown_for && std::ranges::none_of(report.rows, column.is_shown_for)) {
      column.heading.clear();
    }
  }
  return chosen;
}

}  // namespace

std::string render(Format format, const Report& report) {
  PreparedReport prepared{
      .report = report,
      .columns = columns_for(report),
      .rows = report.per_rank ? rows_of_ranks(report) : rows_of_runs(report.rows),
      .lines = {}};
  prepared.lines = lines_below(report, prepared.rows);
  switch (format) {
    case Format::kTable:
      return render_table(prepared);
    case Format::kMarkdown:
      return render_markdown(prepared);
    case Format::kCsv:
      return render_csv(prepared);
    case Format::kJson:
      return render_json(prepared);
    case Format::kHtml:
      return render_html(prepared);
  }
  throw std::logic_error("unknown report format");
}

}  // namespace fsdp
