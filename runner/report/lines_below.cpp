#include <algorithm>
#include <set>

#include "contract/record/run_paths.h"
#include "runner/report/formats.h"
#include "runner/report/names.h"
#include "runner/report/prediction_errors.h"

namespace fsdp {
namespace {

using ReportRows = std::span<const ReportRow>;
using Names = std::vector<std::string>;

// "4xDDP: failed: rank 2 killed by signal 9; log: results/runs/.../attempt-1/rank2.log"
std::string reason_line(const ComparisonRow& run, const std::filesystem::path& results) {
  const std::string line = fmt::format("{}: {}: {}", run.point, name_of(run.status), run.reason);
  if (!run.attempt) return line;
  const RunPaths paths(results / run.folder);
  const int attempt = static_cast<int>(*run.attempt);
  if (!run.reason_rank) return line + "; logs: " + paths.attempt(attempt).string();
  return line + "; log: " + paths.log(attempt, static_cast<int>(*run.reason_rank)).string();
}

// ", the first 2 steps left out as warm-up"; a step time is of all steps where no more were done.
std::string warmup_remark(ReportRows rows) {
  std::set<std::string> warmups;
  Names without;
  for (const ReportRow& row : rows) {
    const std::optional<int64_t> steps = row.rank ? row.rank->steps : row.run->steps;
    if (steps.value_or(0) == 0) continue;
    const int64_t warmup = row.run->warmup_steps_excluded;
    if (*steps > warmup) {
      warmups.insert(std::to_string(warmup));
    } else if (without.empty() || without.back() != row.run->point) {
      without.push_back(row.run->point);
    }
  }
  if (warmups.empty()) {
    return without.empty() ? "" : ", no step left out as warm-up, for no more were done";
  }
  const std::string text =
      fmt::format(", the first {} {} left out as warm-up", joined_names(warmups),
                  warmups == std::set<std::string>{"1"} ? "step" : "steps");
  if (without.empty()) return text;
  return fmt::format("{} (none of {}, which did no more)", text, joined_names(without));
}

// What the figures are.
std::string figures_line(const PreparedReport& prepared) {
  std::set<std::string> devices;
  bool measured = false;
  bool on_cpu = false;
  for (const ComparisonRow* run : shown_runs(prepared)) {
    if (!run->steps) continue;
    measured = true;
    if (!run->device_name.empty()) devices.insert(run->device_name);
    on_cpu = on_cpu || run->device == DeviceKind::kCpu;
  }
  if (!measured) return {};
  const bool per_rank = prepared.rows.front().rank != nullptr;
  std::string line = fmt::format(
      "Step time: median of the {}{}. Memory: each rank's peak over all steps{}. "
      "Loss: the mean over all tokens that a step trains on.",
      per_rank ? "rank's steps" : "slowest rank ± interquartile range",
      warmup_remark(prepared.rows), per_rank ? "" : ", least-most");
  if (!devices.empty()) line += " Device: " + joined_names(devices) + ".";
  if (on_cpu) line += " CPU timings: they say nothing about a GPU.";
  return line;
}

std::string repeats_line(ReportRows rows) {
  const auto is_repeated = [](const ReportRow& row) {
    return row.is_series && row.series->runs.size() > 1;
  };
  if (std::ranges::none_of(rows, is_repeated)) return {};
  return "Figures of rows with repeats are medians over those that finished.";
}

// What [low, high] is, of the rows that have it.
std::string intervals_remark(bool has_confidence, bool has_range) {
  if (!has_confidence && !has_range) return {};
  const std::string range = "range of the ratios between repeats";
  std::string what =
      has_confidence ? "95 % interval of the ratio, bootstrapped over the repeats" : range;
  if (has_confidence && has_range) {
    what += fmt::format(" (of fewer than {}: {})", kLeastForConfidence, range);
  }
  return fmt::format(" [low, high]: {}; ~: it holds 1, so the repeats show no difference.", what);
}

std::string ratios_line(ReportRows rows, const View& view) {
  Names names;
  std::set<const Series*> seen;
  bool has_confidence = false;
  bool has_range = false;
  for (const ReportRow& row : rows) {
    const Series* baseline = row.series->baseline;
    if (baseline != nullptr && seen.insert(baseline).second) {
      names.push_back(baseline->median.point +
                      (baseline->finished_count > 0 ? "" : ", which has not finished"));
    }
    const auto& ratio = row.series->tokens_per_second_ratio;
    if (!row.is_series || !ratio || !ratio->interval) continue;
    (ratio->is_confidence ? has_confidence : has_range) = true;
  }
  if (names.empty()) return {};
  const char* which = !view.baseline.empty() ? ""
                      : view.group.empty()   ? "the first row that finished: "
                                             : "the first row of a block that finished: ";
  return fmt::format("Ratios are to {}{}.{}", which, joined_names(names),
                     intervals_remark(has_confidence, has_range));
}

// Tokens per second at the quartiles of the step time.
std::optional<Interval> spread_of_speed(const ComparisonRow& run) {
  if (!run.tokens_per_second || !run.step_time_ms_median || !run.step_time_ms_p25 ||
      !run.step_time_ms_p75 || *run.step_time_ms_p25 <= 0) {
    return std::nullopt;
  }
  const double tokens = *run.tokens_per_second * *run.step_time_ms_median;
  return Interval{.low = tokens / *run.step_time_ms_p75, .high = tokens / *run.step_time_ms_p25};
}

// ReportRows that are as fast as their baseline, as far as single runs can tell.
std::string close_line(ReportRows rows) {
  Names close;
  for (const ReportRow& row : rows) {
    const Series* baseline = row.series->baseline;
    if (!row.is_series || baseline == nullptr || baseline == row.series) continue;
    const auto& ratio = row.series->tokens_per_second_ratio;
    if (!ratio || ratio->interval) continue;
    const auto own = spread_of_speed(*row.run);
    const auto other = spread_of_speed(baseline->median);
    if (own && other && own->low <= other->high && other->low <= own->high) {
      close.push_back(row.run->point);
    }
  }
  if (close.empty()) return {};
  return "tokens/s of " + joined_names(close) +
         " and of the baseline are within the spread of their steps; repeats: 5 would tell whether "
         "they differ.";
}

}  // namespace

std::vector<std::string> lines_below(const PreparedReport& prepared) {
  const Report& report = prepared.report;
  std::vector<std::string> lines;
  for (const ComparisonRow* run : shown_runs(prepared)) {
    if (!run->reason.empty()) lines.push_back(reason_line(*run, report.results));
  }
  for (std::string line : {figures_line(prepared), repeats_line(prepared.rows),
                           ratios_line(prepared.rows, report.view), close_line(prepared.rows),
                           predictions_line(shown_runs(prepared))}) {
    if (!line.empty()) lines.push_back(std::move(line));
  }
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return lines;
}

}  // namespace fsdp
