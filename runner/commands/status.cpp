#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>

#include "runner/commands/commands.h"
#include "runner/commands/find_run.h"
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

ExitCode status(const StatusArguments& arguments) {
  require_results(arguments.results);
  const Store store(arguments.results);
  std::vector<StatusRow> rows;
  if (arguments.experiments.empty()) rows = store.statuses("");
  for (const std::string& experiment : find_experiments(store, arguments.experiments)) {
    std::ranges::move(store.statuses(experiment), std::back_inserter(rows));
  }
  std::string text = status_counts(rows) + "\n\n";
  const std::vector<StatusRow> shown = arguments.all ? rows : rows_of_interest(rows, kMostRows);
  const std::vector<RunState> states = current_states(store, shown);
  for (const std::string& line : status_table(states, stdout_has_colour())) text += line + '\n';
  if (shown.size() < rows.size()) {
    text += "and " + std::to_string(rows.size() - shown.size()) + " more; --all shows every one\n";
  }
  if (std::ranges::any_of(states, &RunState::runner_is_gone)) {
    text +=
        "\nrunner gone: fsdp-run was killed; call it again, and it closes and repeats the run\n";
  }
  std::cout << text;
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_status_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("status", "Show how runs stand, also while they run");
  const auto arguments = std::make_shared<StatusArguments>();
  command.footer(R"(Examples:
  fsdp-run status                          of all experiments in results/
  fsdp-run status lab --all
  watch -n 2 fsdp-run status)");
  command
      .add_option("EXPERIMENT", arguments->experiments,
                  "Of these: names or files (default: of all)")
      ->option_text(" ");
  command.add_flag("--all", arguments->all, "Every run; else those that run or ended last");
  add_results_option(command, arguments->results);
  return [arguments] { return status(*arguments); };
}

}  // namespace fsdp
