#include "runner/commands/run_statuses.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "contract/spec/yaml_value.h"
#include "runner/commands/local_time.h"
#include "runner/host/host.h"
#include "runner/progress/run_progress.h"
#include "runner/report/number_text.h"
#include "runner/report/terminal_text.h"
#include "runner/report/text_table.h"
#include "runner/store/quantile.h"

namespace fsdp {
namespace {

constexpr int kStepsOfFigures = 20;

bool is_gone(const StatusRow& row, const std::string& this_host) {
  return row.host == this_host && row.runner_process_id > 0 &&
         kill(static_cast<pid_t>(row.runner_process_id), 0) != 0 && errno == ESRCH;
}

double median_step_time_ms(const std::vector<StepDone>& steps) {
  std::vector<double> times;
  for (const StepDone& step : steps) times.push_back(step.step_time_ms);
  return median(std::move(times));
}

void read_newest_figures(const Store& store, RunState& state) {
  StatusRow& row = state.row;
  const auto attempt = static_cast<int>(*row.attempt);
  const std::vector<StepDone> steps = store.newest_steps(row.run, attempt, 0, kStepsOfFigures);
  if (steps.empty()) return;
  row.steps_done = steps.back().step;
  row.loss_last = steps.back().loss;
  row.step_time_ms_median = median_step_time_ms(steps);
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
  return std::to_string(row.steps_done.value_or(0)) + '/' + std::to_string(*row.steps_planned);
}

std::string time_left_cell(const RunState& run) {
  if (run.job_ends_first()) return duration_text(*run.job_seconds_left) + '*';
  return run.seconds_left ? duration_text(*run.seconds_left) : "-";
}

// As squeue shows them: where it runs, or why it waits.
std::string nodes_cell(const StatusRow& row) {
  if (row.status == RunStatus::kQueued && !row.job_reason.empty())
    return '(' + row.job_reason + ')';
  return row.node_list.empty() ? "-" : row.node_list;
}

using Cells = std::vector<std::string>;

Cells cells_of(const RunState& run) {
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
          has_speed ? three_digits(1000 / *row.step_time_ms_median) : "-",
          row.memory_allocated_bytes_max ? memory_text(*row.memory_allocated_bytes_max) : "-",
          row.loss_last ? loss_text(*row.loss_last) : "-",
          since ? local_time(*since) : "-",
          time_left_cell(run),
          nodes_cell(row)};
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
       {RunStatus::kFinished, RunStatus::kOutOfMemory, RunStatus::kFailed, RunStatus::kTimeLimit,
        RunStatus::kInterrupted, RunStatus::kPreempted, RunStatus::kNodeFailed,
        RunStatus::kCancelled, RunStatus::kUnknown, RunStatus::kRunning, RunStatus::kQueued,
        RunStatus::kPlanned}) {
    if (counts[status] == 0) continue;
    text += std::exchange(separator, ", ") + std::to_string(counts[status]) + ' ' +
            std::string(name_of(status));
  }
  return text;
}

std::vector<StatusRow> rows_of_interest(std::span<const StatusRow> rows, size_t most) {
  if (rows.size() <= most) return {rows.begin(), rows.end()};
  std::vector<size_t> order(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) order[i] = i;
  const auto interest = [&](size_t i) {
    const StatusRow& row = rows[i];
    // Runs that run, those that wait in a job, and then by when they ended.
    const int is_open = row.status == RunStatus::kRunning  ? 2
                        : row.status == RunStatus::kQueued ? 1
                                                           : 0;
    return std::pair(is_open, row.ended_unix_ms.value_or(0));
  };
  std::ranges::stable_sort(order, std::greater(), interest);
  order.resize(most);
  std::ranges::sort(order);
  std::vector<StatusRow> chosen;
  for (const size_t i : order) chosen.push_back(rows[i]);
  return chosen;
}

std::vector<std::string> status_table(std::span<const RunState> runs, size_t width, bool colour) {
  const std::vector<TextColumn> columns{
      {.heading = "run", .leaves = 3},
      {.heading = "point", .is_left = true, .least = 12},
      {.heading = "status", .is_left = true},
      {.heading = "job", .is_left = true, .when_known = true},
      {.heading = "steps"},
      {.heading = "it/s"},
      {.heading = "memory"},
      {.heading = "loss", .leaves = 2},
      {.heading = "since", .is_left = true, .leaves = 1},
      {.heading = "time left"},
      {.heading = "nodes", .is_left = true, .when_known = true, .least = 8}};
  constexpr size_t kStatus = 2;
  std::vector<Cells> rows;
  for (const RunState& run : runs) rows.push_back(cells_of(run));
  const auto style = [&](size_t row, size_t column) {
    return colour && column == kStatus ? colour_of(runs[row].row.status) : std::string_view();
  };
  return laid_out(columns, std::move(rows), width, style).lines();
}

}  // namespace fsdp
