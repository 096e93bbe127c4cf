#include <algorithm>
#include <set>

#include "contract/record/run_paths.h"
#include "runner/report/formats.h"
#include "runner/report/names.h"
#include "runner/report/prediction_errors.h"
#include "runner/report/speeds.h"

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

// ", the first 2 steps left out as warm-up". If no more steps were done, all of them count.
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
  if (warmups == std::set<std::string>{"0"}) return "";
  const std::string steps =
      warmups == std::set<std::string>{"1"} ? "step" : joined_names(warmups) + " steps";
  const std::string text = fmt::format(", the first {} left out as warm-up", steps);
  if (without.empty()) return text;
  return fmt::format("{} (none of {}, which did no more)", text, joined_names(without));
}

bool shows(const PreparedReport& prepared, std::string_view name) {
  const auto column = std::ranges::find(prepared.columns, name, &Column::name);
  return column != prepared.columns.end() && !column->heading.empty() &&
         prepared.shown_at_first.contains(column->name);
}

// Explains the shown columns.
std::string columns_remark(const PreparedReport& prepared) {
  const bool per_rank = prepared.rows.front().rank != nullptr;
  Names texts;
  if (shows(prepared, "step_time_ms_median")) {
    texts.push_back(fmt::format("Step time: median of the {}{}.",
                                per_rank ? "rank's steps" : "slowest rank ± interquartile range",
                                warmup_remark(prepared.rows)));
  } else if (shows(prepared, "tokens_per_second")) {
    texts.push_back(fmt::format("tokens/s: at the median step of the slowest rank{}.",
                                warmup_remark(prepared.rows)));
  }
  if (shows(prepared, "memory_allocated_bytes_max")) {
    texts.push_back(per_rank            ? "Memory: each rank's peak over all steps."
                    : prepared.is_brief ? "Memory: the peak of what the rank with most allocated."
                                        : "Memory: each rank's peak over all steps, least-most.");
  }
  if (shows(prepared, "scaling_efficiency_percent")) {
    texts.push_back(
        "Scaling: tokens/s a rank in % of the row with fewest ranks that differs in nothing else.");
  }
  if (shows(prepared, "loss_last")) {
    texts.push_back(fmt::format("Loss: {}the mean over all tokens that a step trains on.",
                                prepared.is_brief ? "of the last step, " : ""));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

// Explains the figures.
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
  const bool is_told = std::ranges::any_of(
      prepared.blocks, [](const Block& block) { return !block.set_up.empty(); });
  std::string line = columns_remark(prepared);
  const auto add = [&](const std::string& text) { line += (line.empty() ? "" : " ") + text; };
  if (!devices.empty() && !is_told) add("Device: " + joined_names(devices) + ".");
  if (on_cpu) add("CPU timings: they say nothing about a GPU.");
  return line;
}

std::string repeats_line(ReportRows rows) {
  const auto is_repeated = [](const ReportRow& row) {
    return row.is_series && row.series->runs.size() > 1;
  };
  if (std::ranges::none_of(rows, is_repeated)) return {};
  const bool has_unfinished = std::ranges::any_of(rows, [&](const ReportRow& row) {
    return is_repeated(row) && row.series->finished_count == 0 && row.run->steps.value_or(0) > 0;
  });
  return fmt::format("Figures of rows with repeats are medians over those that finished{}.",
                     has_unfinished ? "; where none did, over all" : "");
}

// Explains [low, high] for the rows that have it.
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

// Suggests a way to separate rows from their baseline if the difference is within noise.
std::string noise_line(std::span<const Block> blocks) {
  bool has_few_steps = false;
  bool has_few_repeats = false;
  for (const Block& block : blocks) {
    SeriesRows rows;
    for (const ReportRow& row : block.rows) {
      if (row.is_series) rows.push_back(row.series);
    }
    const SpeedComparison speeds(rows);
    for (const Series* row : speeds.rows()) {
      const Series* baseline = row->baseline;
      if (baseline == nullptr || baseline == row || !row->tokens_per_second_ratio) continue;
      const Speed speed = speeds.against(*row, *baseline);
      has_few_steps = has_few_steps || speed == Speed::kTooFewSteps;
      if (speed != Speed::kNoDifference) continue;
      has_few_repeats = has_few_repeats || std::min(row->finished_count, baseline->finished_count) <
                                               kLeastForConfidence;
    }
  }
  if (!has_few_steps && !has_few_repeats) return {};
  return fmt::format("Of speeds within noise {} would tell more.",
                     has_few_steps ? "more steps (train.steps)" : "`repeats: 5`");
}

}  // namespace

std::vector<std::string> lines_below(const PreparedReport& prepared) {
  const Report& report = prepared.report;
  std::vector<std::string> lines;
  for (std::string line :
       {figures_line(prepared), repeats_line(prepared.rows),
        shows(prepared, "tokens_per_second_ratio") ? ratios_line(prepared.rows, report.view)
                                                   : std::string(),
        noise_line(prepared.blocks), predictions_line(shown_runs(prepared))}) {
    if (!line.empty()) lines.push_back(std::move(line));
  }
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return lines;
}

std::vector<std::string> reasons_below(const PreparedReport& prepared) {
  std::vector<const ComparisonRow*> runs = shown_runs(prepared);
  // Runs out of memory are last, because the table already says that they do not fit.
  std::ranges::stable_partition(
      runs, [](const ComparisonRow* run) { return run->status != RunStatus::kOutOfMemory; });
  std::vector<std::string> reasons;
  for (const ComparisonRow* run : runs) {
    if (!run->reason.empty()) reasons.push_back(reason_line(*run, prepared.report.results));
  }
  return reasons;
}

}  // namespace fsdp
