#include "runner/commands/status.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "base/system/unix_time.h"
#include "base/text/utf8.h"
#include "runner/commands/console.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/progress/run_progress.h"
#include "runner/series/doubling.h"
#include "runner/store/quantile.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"
#include "runner/table/table.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

// --- runs ---

constexpr int kStepsOfFigures = 20;

bool is_gone(const StatusRow& row, const std::string& this_host) {
  return row.host == this_host && row.runner_process_id > 0 &&
         kill(static_cast<pid_t>(row.runner_process_id), 0) != 0 && errno == ESRCH;
}

void read_newest_figures(const Store& store, RunState& state) {
  StatusRow& row = state.row;
  const auto attempt = static_cast<int>(*row.attempt);
  const std::vector<StepDone> steps = store.newest_steps(row.run, attempt, 0, kStepsOfFigures);
  if (steps.empty()) return;
  row.steps_done = steps.back().step;
  row.loss_last = steps.back().loss;
  row.step_time_ms_median = median(mapped(steps, &StepDone::step_time_ms));
  row.memory_allocated_bytes_max = 0;
  for (const RunStarted& rank : store.rank_facts(row.run, attempt)) {
    for (const StepDone& step :
         store.newest_steps(row.run, attempt, static_cast<int>(rank.rank), kStepsOfFigures)) {
      row.memory_allocated_bytes_max =
          std::max(*row.memory_allocated_bytes_max, step.memory_allocated_bytes_max);
    }
  }
  if (row.steps_planned && !state.runner_is_gone) {
    const double steps =
        static_cast<double>(*row.steps_planned) - static_cast<double>(*row.steps_done);
    state.seconds_left = std::max(steps, 0.0) * *row.step_time_ms_median / 1000;
  }
}

std::string steps_cell(const StatusRow& row) {
  if (!row.steps_planned) return "-";
  return fmt::format("{}/{}", row.steps_done.value_or(0), *row.steps_planned);
}

std::string time_left_cell(const RunState& run) {
  if (run.job_ends_first()) return duration_text(*run.job_seconds_left) + '*';
  return run.seconds_left ? duration_text(*run.seconds_left) : "-";
}

// Tells where the run runs, or why it waits, as squeue does.
std::string nodes_cell(const StatusRow& row) {
  if (row.status == RunStatus::kQueued && !row.job_reason.empty())
    return '(' + row.job_reason + ')';
  if (row.job_state == "SUSPENDED") return row.node_list + " (suspended)";
  return row.node_list.empty() ? "-" : row.node_list;
}

std::vector<Cell> cells_of(const RunState& run) {
  const StatusRow& row = run.row;
  const bool is_under_way = row.status == RunStatus::kRunning;
  const std::optional<int64_t> since = is_under_way ? row.started_unix_ms : row.ended_unix_ms;
  const bool has_speed = row.step_time_ms_median > 0.0;
  const std::string status = run.runner_is_gone ? "runner gone" : std::string(name_of(row.status));
  return {std::to_string(row.run),
          row.experiment + '/' + row.point,
          status,
          row.slurm_job.empty() ? "-" : row.slurm_job,
          steps_cell(row),
          has_speed ? three_digits(row.step_time_ms_median) : "-",
          row.memory_allocated_bytes_max ? gibibytes(*row.memory_allocated_bytes_max) : "-",
          row.loss_last ? loss_text(*row.loss_last) : "-",
          since ? local_time(*since) : "-",
          time_left_cell(run),
          nodes_cell(row)};
}

using DoubledRows = std::vector<const ComparisonRow*>;

std::string outlook(const DoubledRows& series) {
  const ComparisonRow& last = **std::ranges::max_element(
      series, {}, [](const ComparisonRow* row) { return *row->family_value; });
  const auto open = std::ranges::find_if(
      series, [](const ComparisonRow* row) { return is_under_way(row->status); });
  const auto does_not_fit =
      std::ranges::find(series, RunStatus::kOutOfMemory, &ComparisonRow::status);
  if (open == series.end() &&
      (does_not_fit != series.end() || last.status != RunStatus::kFinished)) {
    return "";
  }
  const ComparisonRow& known = open == series.end() ? last : **open;
  const std::string value =
      visible_line(fmt::format("{}: {}: {}={}", known.experiment, name_without_value(known),
                               known.family_key, *known.family_value));
  return value +
         (open == series.end()
              ? " fits; the next call of fsdp-run with --launcher slurm submits the next value, if "
                "there is one\n"
              : ": when its result is known, the fsdp-run that follows the jobs submits the next "
                "value; if none follows them, the next call with --launcher slurm does\n");
}

// --- nodes ---

constexpr size_t kColumnsOfGpus = 100;  // if the width is unknown

std::string percent(std::optional<double> value) {
  return value ? decimals(std::round(*value), 0) + " %" : "-";
}

std::optional<double> part_percent(std::optional<int64_t> part, std::optional<int64_t> whole) {
  if (!part || whole.value_or(0) <= 0) return std::nullopt;
  return 100 * static_cast<double>(*part) / static_cast<double>(*whole);
}

// Returns the node's power if known, else the total of its GPUs.
std::string power_text(const NodeState& state) {
  if (state.node.power_watts) return three_digits(*state.node.power_watts) + " W";
  std::optional<double> watts;
  for (const DeviceSample& gpu : state.gpus) {
    if (gpu.power_watts) watts = watts.value_or(0) + *gpu.power_watts;
  }
  return watts ? three_digits(*watts) + " W of GPUs" : "-";
}

std::vector<Cell> node_cells(const NodeState& state, int64_t now_unix_ms) {
  const DeviceSample& node = state.node;
  const bool is_known =
      node.memory_used_bytes >= 0 && node.memory_total_bytes >= node.memory_used_bytes.value_or(0);
  const auto available =
      is_known ? std::optional(*node.memory_total_bytes - *node.memory_used_bytes) : std::nullopt;
  const auto age_ms =
      std::max(0.0, static_cast<double>(now_unix_ms) - static_cast<double>(state.sampled_unix_ms));
  return {state.host,
          node.cpu_count ? std::to_string(*node.cpu_count) : "-",
          percent(node.utilization_percent),
          gibibytes(available),
          percent(part_percent(available, node.memory_total_bytes)),
          gibibytes(node.memory_free_bytes),
          gibibytes(node.memory_total_bytes),
          power_text(state),
          duration_text(age_ms / 1000) + " ago"};
}

std::vector<Column> node_columns() {
  return {{.heading = "node", .is_left = true, .least = 8},
          {.heading = "CPUs"},
          {.heading = "busy"},
          {.heading = "available GiB"},
          {.heading = "part"},
          {.heading = "free GiB"},
          {.heading = "total GiB", .drop_order = 2},
          {.heading = "power", .when_known = true},
          {.heading = "sampled", .drop_order = 1}};
}

std::string gpu_text(const DeviceSample& gpu) {
  constexpr size_t kPercent = 5;  // "100 %"
  const auto part = part_percent(gpu.memory_used_bytes, gpu.memory_total_bytes);
  return fmt::format("{} {:>{}} busy {}/{} GiB{}", visible_line(gpu.device),
                     percent(gpu.utilization_percent), kPercent, gibibytes(gpu.memory_used_bytes),
                     gibibytes(gpu.memory_total_bytes), part ? ' ' + percent(part) : "");
}

// Returns the lines below the node's line, in columns of equal width.
std::vector<std::string> gpu_lines(const NodeState& state, size_t width) {
  constexpr size_t kIndent = 2, kGap = 4;
  std::vector<std::string> texts;
  size_t widest = 0;
  for (const DeviceSample& gpu : state.gpus) {
    texts.push_back(gpu_text(gpu));
    widest = std::max(widest, display_width(texts.back()));
  }
  const size_t room = width == 0 ? kColumnsOfGpus : width;
  std::vector<std::string> lines;
  for (const std::string& text : texts) {
    if (lines.empty() || display_width(lines.back()) + kGap + widest > room) {
      lines.push_back(std::string(kIndent, ' '));
    } else {
      lines.back().append(kGap, ' ');
    }
    lines.back() += display_left(text, widest);
  }
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

// --- the command ---

constexpr size_t kMostRows = 20;
constexpr std::chrono::seconds kPauseOfWatchers{5};  // of a command that watch repeats

struct StatusArguments {
  std::vector<std::string> experiments;
  std::vector<std::string> results{"results"};
  bool all = false;
};

std::string text_of(const std::vector<std::string>& lines) {
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

// Returns remedies for runs that wait in jobs. Slurm's own reasons are in the table.
std::string why_they_wait(std::span<const StatusRow> rows) {
  std::string text;
  for (const StatusRow& row : rows) {
    if (row.status != RunStatus::kQueued || row.reason.empty()) continue;
    text += text.empty() ? "\n" : "";
    text += visible_line(row.experiment + '/' + row.point + ": " + row.reason) + '\n';
  }
  return text;
}

std::vector<ComparisonRow> comparison_of(const Store& store, std::span<const StatusRow> rows) {
  std::set<std::string> experiments;
  for (const StatusRow& row : rows) {
    if (!row.slurm_job.empty()) experiments.insert(row.experiment);
  }
  std::vector<ComparisonRow> found;
  for (const std::string& experiment : experiments) {
    std::ranges::move(store.comparison(experiment), std::back_inserter(found));
  }
  return found;
}

ExitCode status(const StatusArguments& arguments) {
  Store store = existing_results(arguments.results);
  refresh_open_jobs(store, place_of_results(arguments.results), kPauseOfWatchers);
  std::vector<StatusRow> rows;
  if (arguments.experiments.empty()) rows = store.statuses("");
  for (const std::string& experiment : find_experiments(store, arguments.experiments)) {
    std::ranges::move(store.statuses(experiment), std::back_inserter(rows));
  }
  const std::vector<StatusRow> shown = arguments.all ? rows : rows_of_interest(rows, kMostRows);
  const int64_t now = now_unix_ms();
  const size_t width = stdout_columns();
  const std::vector<RunState> states = current_states(store, shown, now);
  std::string text = fmt::format("{}\n\n{}", status_counts(rows),
                                 text_of(status_table(states, width, stdout_has_colour())));
  if (shown.size() < rows.size()) {
    text += fmt::format("and {} more; --all shows every one\n", rows.size() - shown.size());
  }
  if (std::ranges::any_of(states, &RunState::runner_is_gone)) {
    text +=
        "\nrunner gone: fsdp-run was killed. Call it again: it records how the run ended, and runs "
        "it "
        "again\n";
  }
  if (std::ranges::any_of(states, &RunState::job_ends_first)) {
    text += "\n*: until the time limit of the run's job, which comes before the run's last step\n";
  }
  text += why_they_wait(shown);
  const std::string outlook = doubling_outlook(comparison_of(store, rows));
  if (!outlook.empty()) text += '\n' + outlook;
  const std::vector<NodeState> nodes = node_states(store, states);
  if (!nodes.empty()) text += '\n' + text_of(node_table(nodes, width, now));
  std::cout << text;
  return ExitCode::kOk;
}

}  // namespace

std::vector<RunState> current_states(const Store& store, std::span<const StatusRow> rows,
                                     int64_t now_unix_ms) {
  const std::string this_host = host_name();
  std::vector<RunState> states;
  states.reserve(rows.size());
  for (const StatusRow& row : rows) {
    RunState& state = states.emplace_back(RunState{.row = row});
    if (row.status != RunStatus::kRunning || !row.attempt) continue;
    if (row.job_ends_unix_ms) {
      const double left_ms =
          static_cast<double>(*row.job_ends_unix_ms) - static_cast<double>(now_unix_ms);
      state.job_seconds_left = std::max(left_ms, 0.0) / 1000;
    }
    state.runner_is_gone = is_gone(row, this_host);
    read_newest_figures(store, state);
  }
  return states;
}

std::string status_counts(std::span<const StatusRow> rows) {
  std::map<RunStatus, int64_t> counts;
  for (const StatusRow& row : rows) ++counts[row.status];
  std::string text = counted(std::ssize(rows), "run");
  std::string separator = ": ";
  for (const RunStatus status :
       {RunStatus::kFinished, RunStatus::kOutOfMemory, RunStatus::kOutOfHostMemory,
        RunStatus::kFailed, RunStatus::kTimeLimit, RunStatus::kInterrupted, RunStatus::kPreempted,
        RunStatus::kNodeFailed, RunStatus::kCancelled, RunStatus::kUnknown, RunStatus::kRunning,
        RunStatus::kQueued, RunStatus::kPlanned}) {
    if (counts[status] == 0) continue;
    text += fmt::format("{}{} {}", std::exchange(separator, ", "), counts[status], name_of(status));
  }
  return text;
}

std::vector<StatusRow> rows_of_interest(std::span<const StatusRow> rows, size_t most) {
  std::vector<const StatusRow*> order;
  for (const StatusRow& row : rows) order.push_back(&row);
  const auto interest = [](const StatusRow* row) {
    // Running runs come first, then runs that wait in a job, then the latest ended.
    const int is_open = row->status == RunStatus::kRunning  ? 2
                        : row->status == RunStatus::kQueued ? 1
                                                            : 0;
    return std::pair(is_open, row->ended_unix_ms.value_or(0));
  };
  std::ranges::stable_sort(order, std::greater(), interest);
  order.resize(std::min(most, order.size()));
  std::ranges::sort(order);  // by address: the order of `rows`
  std::vector<StatusRow> chosen;
  for (const StatusRow* row : order) chosen.push_back(*row);
  return chosen;
}

std::vector<std::string> status_table(std::span<const RunState> runs, size_t width, bool colour) {
  Table table{.columns = {{.heading = "run", .drop_order = 3},
                          {.heading = "point", .is_left = true, .least = 12, .first_cut_to = 12},
                          {.heading = "status", .is_left = true},
                          {.heading = "job", .is_left = true, .when_known = true},
                          {.heading = "steps"},
                          {.heading = "ms/step"},
                          {.heading = "GiB", .drop_order = 4},
                          {.heading = "loss", .drop_order = 2},
                          {.heading = "since", .is_left = true, .drop_order = 1},
                          {.heading = "time left"},
                          {.heading = "nodes", .is_left = true, .when_known = true, .least = 8}}};
  constexpr size_t kStatus = 2;
  for (const RunState& run : runs) {
    table.add(cells_of(run)).cells[kStatus].style = colour_of(run.row.status);
  }
  return lay_out(table, {.width = width, .colour = colour}).all();
}

std::string doubling_outlook(std::span<const ComparisonRow> rows) {
  std::map<std::pair<std::string, int64_t>, DoubledRows> all;
  for (const ComparisonRow& row : rows) {
    if (row.family_value) all[{row.experiment, row.position}].push_back(&row);
  }
  std::string text;
  for (const auto& [key, series] : all) {
    const bool is_of_jobs = std::ranges::any_of(series, [](const ComparisonRow* row) {
      return row->status == RunStatus::kQueued || !row->slurm_job.empty();
    });
    if (is_of_jobs) text += outlook(series);
  }
  return text;
}

std::vector<NodeState> node_states(const Store& store, std::span<const RunState> runs) {
  // The key sorts by host, and gpu:2 before gpu:10.
  std::map<std::tuple<std::string, size_t, std::string>, Recorded<DeviceSample>> newest;
  for (const RunState& run : runs) {
    if (run.row.status != RunStatus::kRunning || !run.row.attempt) continue;
    for (const auto& sample :
         store.newest_device_samples(run.row.run, static_cast<int>(*run.row.attempt))) {
      auto& kept = newest[{sample.body.host, sample.body.device.size(), sample.body.device}];
      if (sample.time_unix_ms >= kept.time_unix_ms) kept = sample;
    }
  }
  std::vector<NodeState> states;
  for (const auto& [key, sample] : newest) {
    const DeviceSample& body = sample.body;
    if (states.empty() || states.back().host != body.host) states.push_back({.host = body.host});
    NodeState& state = states.back();
    state.sampled_unix_ms = std::max(state.sampled_unix_ms, sample.time_unix_ms);
    if (body.device == "cpu") {
      state.node = body;
    } else {
      state.gpus.push_back(body);
    }
  }
  return states;
}

std::vector<std::string> node_table(std::span<const NodeState> nodes, size_t width,
                                    int64_t now_unix_ms) {
  Table table{.columns = node_columns()};
  for (const NodeState& state : nodes) table.add(node_cells(state, now_unix_ms));
  const TableLines shown = lay_out(table, {.width = width});
  std::vector<std::string> lines = shown.heading;
  for (size_t i = 0; i < nodes.size(); ++i) {
    lines.push_back(shown.rows[i]);
    std::ranges::move(gpu_lines(nodes[i], width), std::back_inserter(lines));
  }
  return lines;
}

CommandFunction add_status_command(CLI::App& command) {
  const auto arguments = std::make_shared<StatusArguments>();
  command.footer(R"(Examples:
  fsdp-run status                          of all experiments in results/
  fsdp-run status lab --all
  fsdp-run status --results a --results b  of several folders
  watch -n 2 fsdp-run status)");
  command.add_option("EXPERIMENT", arguments->experiments,
                     "Only these experiments: names or files (default: all)");
  command.add_flag("--all", arguments->all,
                   "Show every run (default: those that run or ended last)");
  add_results_option(command, arguments->results);
  return [arguments] { return status(*arguments); };
}

}  // namespace fsdp
