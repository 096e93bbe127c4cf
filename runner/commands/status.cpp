#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>

#include "base/system/unix_time.h"
#include "base/text/utf8.h"
#include "runner/commands/commands.h"
#include "runner/commands/find_run.h"
#include "runner/commands/jobs_of_runs.h"
#include "runner/commands/options.h"
#include "runner/commands/print_report.h"
#include "runner/commands/run_statuses.h"

namespace fsdp {
namespace {

constexpr size_t kMostRows = 20;

struct StatusArguments {
  std::vector<std::string> experiments;
  std::filesystem::path results = "results";
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
  refresh_open_jobs_now_and_then(store, arguments.results);
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
        "\nrunner gone: fsdp-run was killed; call it again, and it closes and repeats the run\n";
  }
  if (std::ranges::any_of(states, &RunState::job_ends_first)) {
    text += "\n* until the time limit of its job passes\n";
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

CommandFunction add_status_command(CLI::App& command) {
  const auto arguments = std::make_shared<StatusArguments>();
  command.footer(R"(Examples:
  fsdp-run status                          of all experiments in results/
  fsdp-run status lab --all
  watch -n 2 fsdp-run status)");
  command.add_option("EXPERIMENT", arguments->experiments,
                     "Of these: names or files (default: of all)");
  command.add_flag("--all", arguments->all, "Every run; else those that run or ended last");
  add_results_option(command, arguments->results);
  return [arguments] { return status(*arguments); };
}

}  // namespace fsdp
