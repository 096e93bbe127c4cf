#include "runner/commands/run_statuses.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"
#include "runner/commands/console.h"
#include "runner/host/host.h"
#include "runner/progress/run_progress.h"
#include "runner/series/doubling.h"
#include "runner/store/quantile.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"
#include "runner/table/table.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

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

}  // namespace fsdp
