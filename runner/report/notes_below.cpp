// Writes the lines below a table: what figures mean, and why runs ended.
#include <algorithm>
#include <cmath>

#include "base/system/program.h"
#include "contract/record/run_paths.h"
#include "contract/spec/yaml_value.h"
#include "runner/answers/facts.h"
#include "runner/report/columns.h"
#include "runner/store/quantile.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

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

// Names the devices, and says what the CPU's times mean.
std::string device_line(const Runs& runs) {
  Names devices;
  bool is_on_cpu = false;
  for (const ComparisonRow* run : runs) {
    if (!run->steps) continue;
    if (!run->device_name.empty()) devices.push_back(run->device_name);
    is_on_cpu = is_on_cpu || run->spec.device == DeviceKind::kCpu;
  }
  std::ranges::sort(devices);
  return joined_texts({devices.empty() ? "" : "Device: " + joined_names(distinct(devices)) + ".",
                       is_on_cpu ? "CPU timings: they say nothing about a GPU." : ""},
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
std::string intervals_remark(RunRows rows) {
  bool has_confidence = false;
  bool has_range = false;
  for (const RunRow& row : rows) {
    const auto& ratio = row.series->tokens_per_second_ratio;
    if (!row.is_series() || !ratio || !ratio->interval) continue;
    (ratio->is_confidence ? has_confidence : has_range) = true;
  }
  if (!has_confidence && !has_range) return {};
  if (!has_confidence) return "[low, high]: least and greatest of the repeats";
  return std::string("[low, high]: 95 % interval over the repeats") +
         (has_range ? "; of fewer than 5 the least and greatest" : "");
}

// "1 GPU". Empty: no row has a baseline.
std::string baselines_in_words(RunRows rows) {
  SeriesRows baselines = distinct(mapped(rows, [](auto& row) { return row.series->baseline; }));
  std::erase(baselines, nullptr);
  return joined_names(mapped(baselines, [](const Series* series) {
    return series->median.point + (series->finished_count > 0 ? "" : ", which has not finished");
  }));
}

std::string ratios_line(RunRows rows, const View& view) {
  const std::string names = baselines_in_words(rows);
  if (names.empty()) return {};
  const char* which = !view.baseline.empty() ? ""
                      : view.group.empty()   ? "the first row that finished: "
                                             : "the first row of a block that finished: ";
  return joined_texts({fmt::format("Ratios are to {}{}", which, names), intervals_remark(rows)},
                      ". ") +
         '.';
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

// Less than this part of a request in use means that the request was too large.
constexpr double kLeastPartUsed = 0.5;

}  // namespace

std::string use_of_requests(const ComparisonRow& run, bool only_if_too_large) {
  const SlurmSpec& asked = run.spec.slurm;
  std::vector<std::string> used, too_large;
  if (run.gpu_utilization_percent_mean) {
    used.push_back(fmt::format("GPUs busy {:.0f} %", *run.gpu_utilization_percent_mean));
  }
  if (run.device_memory_bytes && run.memory_reserved_bytes_max) {
    used.push_back(fmt::format("{} of {} GiB of a GPU", gibibytes(run.memory_reserved_bytes_max),
                               gibibytes(run.device_memory_bytes)));
  }
  if (const auto cores = run.cpu_cores_used_max) {
    used.push_back(fmt::format("{:.1f} of {} a rank", *cores, counted(asked.cpus_per_task, "CPU")));
    const auto enough = std::max<int64_t>(1, std::llround(std::ceil(*cores)));
    if (*cores < kLeastPartUsed * static_cast<double>(asked.cpus_per_task) &&
        enough < asked.cpus_per_task) {
      too_large.push_back(fmt::format("slurm.cpus_per_task: {} is enough", enough));
    }
  }
  const std::optional<int64_t> node_bytes = node_memory_bytes(asked);
  if (node_bytes && run.memory_node_bytes_max) {
    const auto bytes = static_cast<double>(*run.memory_node_bytes_max);
    used.push_back(
        fmt::format("{} of {} GiB of a node's memory", gibibytes(bytes), gibibytes(node_bytes)));
    if (bytes < kLeastPartUsed * static_cast<double>(*node_bytes)) {
      constexpr double kSpare = 1.25;
      too_large.push_back(
          fmt::format("slurm.mem: {:.0f}G is enough", std::ceil(kSpare * bytes / 0x1p30)));
    }
  }
  if (used.empty() || run.slurm_job.empty()) return "";
  if (only_if_too_large && too_large.empty()) return "";
  return fmt::format("{} used {}{}{}.", run.point, fmt::join(used, ", "),
                     too_large.empty() ? "" : "; asked too much: ", fmt::join(too_large, ", "));
}

std::string predictions_line(std::span<const ComparisonRow* const> runs, bool are_brief) {
  std::vector<double> of_memory;
  std::vector<double> of_step_times;
  for (const ComparisonRow* run : runs) {
    if (const auto error = memory_error_percent(*run)) of_memory.push_back(*error);
    if (const auto error = step_time_error_percent(*run)) of_step_times.push_back(*error);
  }
  const auto is_small = [](double largest) {
    return [=](double error) { return std::abs(error) <= largest; };
  };
  constexpr double kSmallOfMemory = 5, kSmallOfTimes = 20;  // percent
  const bool are_small = std::ranges::all_of(of_memory, is_small(kSmallOfMemory)) &&
                         std::ranges::all_of(of_step_times, is_small(kSmallOfTimes));
  if (of_memory.empty() || (are_brief && are_small)) return "";
  std::string line = "The predicted " + errors_text("allocated memory was off", of_memory);
  if (!of_step_times.empty()) line += ", the " + errors_text("step time", of_step_times);
  return line + '.';
}

std::vector<std::string> legend_below(const RowGroup& group, const ShownColumns& shown) {
  const std::vector<RunRow>& rows = group.rows;
  if (rows.empty() || rows.front().rank) return {};
  Names headings;
  if (shown.has("memory_allocated_bytes_max")) headings.push_back("memory: peak of a rank");
  if (shown.has("tokens_per_second")) {
    headings.push_back(shown.has("steps") ? "tokens/s and batch (sequences a step): of all ranks"
                                          : "tokens/s: of all ranks");
  }
  Names lines{shown.are_brief ? joined_texts(headings, "; ") : ""};
  if (shown.are_brief && std::ranges::any_of(rows, [](const RunRow& row) {
        return too_little_memory(row).starts_with('>');
      })) {
    lines.push_back("> this much: the run needs more, and ended out of memory");
  }
  if (shown.has("tokens_per_second_ratio")) {
    const std::string baselines = baselines_in_words(rows);
    const bool is_named = shown.are_brief && shown.has_baseline_in_heading;
    if (shown.are_brief && !is_named && !baselines.empty()) {
      lines.push_back("baseline: " + baselines);
    }
    const auto is_unsure = [](const RunRow& row) {
      return row.series->against_baseline == Speed::kNoDifference;
    };
    if (std::ranges::any_of(rows, is_unsure)) {
      lines.push_back("? may be noise: the row is not known to be faster or slower than " +
                      (is_named ? baselines : "its baseline"));
    }
    if (shown.are_brief) lines.push_back(intervals_remark(rows));
  }
  const auto is_marked = [](const RunRow& row) { return row.series->has_other_losses; };
  if (shown.has("loss_last") && std::ranges::any_of(rows, is_marked)) {
    const auto experiment = [](const RunRow& row) { return row.run->experiment; };
    const bool is_one = distinct(mapped(rows, experiment)).size() == 1;
    lines.push_back(is_one ? loss_legend(loss_facts(distinct(mapped(rows, &RunRow::series))))
                           : "* losses are not comparable with those of most rows");
  }
  std::erase(lines, "");
  return lines;
}

std::vector<Answer> next_steps(Rows rows) {
  constexpr size_t kMostShown = 2;
  if (rows.empty()) return {};
  Names texts;
  const SpeedFacts speed = speed_facts(rows);
  const auto needs_repeats = [](const Series* row) {
    return row->against_baseline == Speed::kNoDifference &&
           std::min(row->finished_count, row->baseline->finished_count) < kLeastForConfidence;
  };
  for (const Series* row : rows) {
    const auto failed = std::ranges::find(row->runs, RunStatus::kFailed, &ComparisonRow::status);
    if (failed == row->runs.end()) continue;
    texts.push_back(
        fmt::format("`fsdp-run explain {}` says why it failed", shell_quoted((*failed)->point)));
    break;
  }
  if (!speed.too_few_steps.empty()) {
    texts.push_back("a larger `train.steps` makes speeds comparable");
  } else if (std::ranges::any_of(rows, needs_repeats)) {
    texts.push_back("`--repeats 5` may separate speeds marked ?");
  }
  texts.push_back(fmt::format("`fsdp-run report {} --wide` shows step times and all other columns",
                              shell_quoted(rows.front()->median.experiment)));
  texts.resize(std::min(texts.size(), kMostShown));
  return mapped(texts, [](const std::string& text) { return Answer{"Next", text}; });
}

std::vector<std::string> notes_below(const ReportRows& comparison, const ShownColumns& shown) {
  const Report& report = comparison.report;
  const bool has_ratios = shown.has("tokens_per_second_ratio") && !shown.are_brief;
  std::vector<std::string> lines{
      shown.is_device_told ? "" : device_line(comparison.runs()), repeats_line(comparison.rows),
      has_ratios ? ratios_line(comparison.rows, report.view) : "",
      predictions_line(comparison.runs(), shown.are_brief), held_line(comparison.runs())};
  if (comparison.rows.empty() && !report.view.where.empty() && !comparison.series.empty()) {
    lines.push_back(fmt::format("No row matches --where \"{}\". Without it there {} {}.",
                                fmt::join(report.view.where, "\" --where \""),
                                comparison.series.size() == 1 ? "is" : "are",
                                counted(std::ssize(comparison.series), "row")));
  }
  for (const ComparisonRow* run : comparison.runs()) {
    lines.push_back(use_of_requests(*run, shown.are_brief));
  }
  std::erase(lines, "");
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return lines;
}

std::vector<std::string> reasons_below(const ReportRows& comparison, const ShownColumns& shown) {
  Runs runs = comparison.runs();
  // Runs out of memory are last, because the table already says that they do not fit.
  std::ranges::stable_partition(
      runs, [](const ComparisonRow* run) { return run->status != RunStatus::kOutOfMemory; });
  std::erase_if(runs, [&](const ComparisonRow* run) {
    const bool is_in_table = shown.are_brief && run->status == RunStatus::kOutOfMemory &&
                             run->exceeded_limit_bytes().has_value();
    return run->reason.empty() || is_in_table;
  });
  const auto cause = [](const ComparisonRow* run) { return std::pair(run->status, run->reason); };
  return mapped(grouped(runs, cause), [&](const auto& group) {
    return reason_line(group.second, comparison.report.results);
  });
}

}  // namespace fsdp
