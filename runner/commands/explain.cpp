#include <iostream>
#include <memory>

#include "runner/commands/commands.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/commands/refresh.h"
#include "runner/commands/run_explanation.h"

namespace fsdp {
namespace {

struct ExplainArguments {
  std::string word;
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
};

ExitCode explain(const ExplainArguments& arguments) {
  require_results(arguments.results);
  Store store(arguments.results, StoreUse::kExisting);
  refresh_open_jobs(store, arguments.results);
  const RunRecord run = find_run(store, arguments.word);
  std::string text =
      "Run " + run_label(run) + ": " + explain_status(store, run, arguments.results) + '\n';
  const std::string failure = explain_failure(store, run, arguments.results);
  if (!failure.empty()) text += failure + '\n';
  text += explain_identity(store, run) + '\n';
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  const int64_t rank = attempts.empty() ? 0 : attempts.back().reason_rank.value_or(0);
  const std::string command = reproduction(store, run, static_cast<int>(rank), arguments.results,
                                           find_trainer(arguments.trainer));
  if (command.empty()) {
    text += "It was not started yet, so there is nothing to reproduce.\n";
  } else {
    text += "To start rank " + std::to_string(rank) +
            " by hand (several ranks wait for each other: start each one, with its RANK and "
            "LOCAL_RANK):\n" +
            command + '\n';
  }
  std::cout << text;
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_explain_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "explain", "Say why a run ran, was skipped or failed, and how to repeat it by hand");
  const auto arguments = std::make_shared<ExplainArguments>();
  command.footer(R"(Examples:
  fsdp-run explain 4xFSDP
  fsdp-run explain lab/4xFSDP --results /tmp/try)");
  command.add_option("RUN", arguments->word, kRunWordHelp)->required()->option_text(" ");
  add_results_option(command, arguments->results);
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return explain(*arguments); };
}

}  // namespace fsdp
