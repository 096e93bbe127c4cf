#include <algorithm>
#include <cmath>
#include <set>

#include "contract/record/run_paths.h"
#include "contract/spec/yaml_value.h"
#include "runner/report/columns.h"
#include "runner/series/speeds.h"
#include "runner/store/quantile.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

// The lines below a table.

namespace fsdp {
namespace {

using RunRows = std::span<const RunRow>;
using Names = std::vector<std::string>;

// "4xDDP: failed: rank 2 killed by signal 9; log: results/runs/.../attempt-1/rank2.log". Runs with
// one reason share a line, with the log of the first.
std::string reason_line(const Runs& runs, const std::filesystem::path& results) {
  const ComparisonRow& run = *runs.front();
  const std::string line =
      fmt::format("{}: {}: {}", joined_names(mapped(runs, &ComparisonRow::point)),
                  name_of(run.status), run.reason);
  if (!run.attempt) return line;
  const RunPaths paths(results / run.folder);
  const int attempt = static_cast<int>(*run.attempt);
  const std::string of = runs.size() == 1 ? "" : " of the first";
  if (!run.reason_rank)
    return fmt::format("{}; logs{}: {}", line, of, paths.attempt(attempt).string());
  return fmt::format("{}; log{}: {}", line, of,
                     paths.log(attempt, static_cast<int>(*run.reason_rank)).string());
}

// ". The first 2 steps are warm-up and are left out". All steps count if a run did no more than the
// warm-up.
std::string warmup_remark(RunRows rows) {
  std::set<std::string> warmups;
  Names without;
  for (const RunRow& row : rows) {
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
    return without.empty() ? ""
                           : ". All steps count, because no run did more steps than its warm-up";
  }
  if (warmups == std::set<std::string>{"0"}) return "";
  const std::string steps = warmups == std::set<std::string>{"1"}
                                ? "step is warm-up and is"
                                : joined_names(warmups) + " steps are warm-up and are";
  const std::string text = fmt::format(". The first {} left out", steps);
  if (without.empty()) return text;
  return fmt::format("{}, except for {}, which did no other steps", text, joined_names(without));
}

// Explains the shown columns.
std::string columns_remark(std::span<const RunRow> rows, const ShownColumns& shown) {
  const bool per_rank = rows.front().rank != nullptr;
  Names texts;
  if (shown.has("step_time_ms_median")) {
    texts.push_back(fmt::format("Step time: median of the {}{}.",
                                per_rank ? "rank's steps" : "slowest rank ± interquartile range",
                                warmup_remark(rows)));
  } else if (shown.has("tokens_per_second")) {
    texts.push_back(fmt::format(
        "tokens/s: of all ranks, at the median step. A step takes as long as its slowest "
        "rank{}.",
        warmup_remark(rows)));
  }
  if (shown.has("memory_allocated_bytes_max")) {
    texts.push_back(per_rank ? "Memory: each rank's peak over all steps."
                    : shown.are_brief
                        ? "Memory: the peak of allocated memory, on the rank with the highest peak."
                        : "Memory: the peaks over all steps, from the rank with the lowest to the "
                          "rank with the highest.");
  }
  if (shown.has("scaling_efficiency_percent")) {
    texts.push_back(
        "Scaling: tokens/s of a rank, relative to the comparable row with the fewest ranks.");
  }
  if (shown.has("loss_last")) {
    texts.push_back(fmt::format("Loss: {}the mean over all tokens that a step trains on.",
                                shown.are_brief ? "of the last step, " : ""));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

// Explains the figures.
std::string figures_line(const ReportRows& comparison, const ShownColumns& shown) {
  std::set<std::string> devices;
  bool measured = false;
  bool on_cpu = false;
  for (const ComparisonRow* run : comparison.runs()) {
    if (!run->steps) continue;
    measured = true;
    if (!run->device_name.empty()) devices.insert(run->device_name);
    on_cpu = on_cpu || run->device == DeviceKind::kCpu;
  }
  if (!measured) return {};
  const bool is_device_told = devices.empty() || shown.is_device_told;
  return joined_texts({columns_remark(comparison.rows, shown),
                       is_device_told ? "" : "Device: " + joined_names(devices) + ".",
                       on_cpu ? "CPU timings: they say nothing about a GPU." : ""},
                      " ");
}

std::string repeats_line(RunRows rows) {
  const auto is_repeated = [](const RunRow& row) {
    return row.is_series() && row.series->runs.size() > 1;
  };
  if (std::ranges::none_of(rows, is_repeated)) return {};
  const bool has_unfinished = std::ranges::any_of(rows, [&](const RunRow& row) {
    return is_repeated(row) && row.series->finished_count == 0 && row.run->steps.value_or(0) > 0;
  });
  return fmt::format("Figures of rows with repeats are medians over the finished repeats{}.",
                     has_unfinished ? ", or over all repeats if none finished" : "");
}

// Explains [low, high] for the rows that have it.
std::string intervals_remark(bool has_confidence, bool has_range) {
  if (!has_confidence && !has_range) return {};
  const std::string range = "range of the ratios between repeats";
  std::string what =
      has_confidence ? "95 % interval of the ratio, bootstrapped over the repeats" : range;
  if (has_confidence && has_range) {
    what += fmt::format(" (of fewer than {} repeats: {})", kLeastForConfidence, range);
  }
  return fmt::format(
      " [low, high]: {}; ~: the interval contains 1, so the repeats show no difference.", what);
}

std::string ratios_line(RunRows rows, const View& view) {
  bool has_confidence = false;
  bool has_range = false;
  for (const RunRow& row : rows) {
    const auto& ratio = row.series->tokens_per_second_ratio;
    if (!row.is_series() || !ratio || !ratio->interval) continue;
    (ratio->is_confidence ? has_confidence : has_range) = true;
  }
  SeriesRows baselines = distinct(mapped(rows, [](auto& row) { return row.series->baseline; }));
  std::erase(baselines, nullptr);
  const Names names = mapped(baselines, [](const Series* series) {
    return series->median.point + (series->finished_count > 0 ? "" : ", which has not finished");
  });
  if (names.empty()) return {};
  const char* which = !view.baseline.empty() ? ""
                      : view.group.empty()   ? "the first row that finished: "
                                             : "the first row of a block that finished: ";
  return fmt::format("Ratios are to {}{}.{}", which, joined_names(names),
                     intervals_remark(has_confidence, has_range));
}

// Suggests a way to separate rows from their baseline if the difference is within noise.
std::string noise_line(const std::vector<RowGroup>& groups) {
  bool has_few_steps = false;
  bool has_few_repeats = false;
  for (const RowGroup& group : groups) {
    SeriesRows rows;
    for (const RunRow& row : group.rows) {
      if (row.is_series()) rows.push_back(row.series);
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
  return fmt::format("Use {} to separate speeds that are within noise.",
                     has_few_steps ? "more steps (train.steps)" : "`repeats: 5`");
}

// "allocated memory was off by 0.0 % (median of 12 runs; worst +0.3 %)"
std::string errors_text(const char* of_what, const std::vector<double>& errors) {
  const auto size = [](double error) { return std::abs(error); };
  const double worst = *std::ranges::max_element(errors, {}, size);
  return fmt::format("{} by {:.1f} % (median of {}; worst {:+.1f} %)", of_what,
                     median(mapped(errors, size)), counted(std::ssize(errors), "run"), worst);
}

// "Held over all attempts in jobs: 4.00 GPU-hours, of which ranks used 1.00 GPU-hours, and 1.00
// node-hours." Empty if no run was in a job.
std::string held_line(const Runs& runs) {
  HeldTime sum{.gpu_time_in_jobs_ms = 0, .gpu_time_of_ranks_ms = 0, .node_time_ms = 0};
  const auto text = [](double time_ms, const char* unit) {
    return fmt::format("{} {}", three_digits(hours_of(time_ms)), unit);
  };
  for (const ComparisonRow* run : runs) {
    if (!run->held.node_time_ms) continue;
    for (const auto time : {&HeldTime::gpu_time_in_jobs_ms, &HeldTime::gpu_time_of_ranks_ms,
                            &HeldTime::node_time_ms}) {
      *(sum.*time) += (run->held.*time).value_or(0);
    }
  }
  if (*sum.node_time_ms == 0) return {};
  const std::string nodes = text(*sum.node_time_ms, "node-hours");
  if (*sum.gpu_time_in_jobs_ms == 0) return fmt::format("Over all attempts, jobs held {}.", nodes);
  return fmt::format("Over all attempts, jobs held {} (ranks used {}) and {}.",
                     text(*sum.gpu_time_in_jobs_ms, "GPU-hours"),
                     text(*sum.gpu_time_of_ranks_ms, "GPU-hours"), nodes);
}

}  // namespace

std::string predictions_line(std::span<const ComparisonRow* const> runs) {
  std::vector<double> of_memory;
  std::vector<double> of_step_times;
  for (const ComparisonRow* run : runs) {
    if (const auto error = memory_error_percent(*run)) of_memory.push_back(*error);
    if (const auto error = step_time_error_percent(*run)) of_step_times.push_back(*error);
  }
  if (of_memory.empty()) return "";
  std::string line = "The predicted " + errors_text("allocated memory was off", of_memory);
  if (!of_step_times.empty()) line += ", the " + errors_text("step time", of_step_times);
  return line + '.';
}

std::vector<std::string> notes_below(const ReportRows& comparison, const ShownColumns& shown) {
  const Report& report = comparison.report;
  const bool has_ratios = shown.has("tokens_per_second_ratio");
  std::vector<std::string> lines{figures_line(comparison, shown),
                                 repeats_line(comparison.rows),
                                 has_ratios ? ratios_line(comparison.rows, report.view) : "",
                                 noise_line(comparison.groups),
                                 predictions_line(comparison.runs()),
                                 held_line(comparison.runs())};
  std::erase(lines, "");
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return lines;
}

std::vector<std::string> reasons_below(const ReportRows& comparison) {
  Runs runs = comparison.runs();
  // Runs out of memory are last, because the table already says that they do not fit.
  std::ranges::stable_partition(
      runs, [](const ComparisonRow* run) { return run->status != RunStatus::kOutOfMemory; });
  std::erase_if(runs, [](const ComparisonRow* run) { return run->reason.empty(); });
  const auto cause = [](const ComparisonRow* run) { return std::pair(run->status, run->reason); };
  return mapped(grouped(runs, cause), [&](const auto& group) {
    return reason_line(group.second, comparison.report.results);
  });
}

}  // namespace fsdp
