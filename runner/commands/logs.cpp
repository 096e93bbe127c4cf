#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>

#include "runner/commands/commands.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/run_paths.h"

namespace fsdp {
namespace {

constexpr std::chrono::milliseconds kFollowInterval{200};

struct LogsArguments {
  std::string word;
  std::filesystem::path results = "results";
  std::optional<int> rank;
  std::optional<int> attempt;
  bool follow = false;
};

AttemptRecord chosen_attempt(const Store& store, const RunRecord& run, std::optional<int> number) {
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  if (attempts.empty()) {
    throw ConfigError("", run.point, "was not started yet, so it has no log");
  }
  for (const AttemptRecord& attempt : attempts) {
    if (attempt.attempt == number.value_or(attempts.back().attempt)) return attempt;
  }
  std::string numbers;
  for (const AttemptRecord& attempt : attempts) {
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(attempt.attempt);
  }
  throw ConfigError("--attempt", std::to_string(*number), "there is none; allowed: " + numbers);
}

// Prints what `log` has gained. Opened anew each time, which shows new data on network file
// systems.
void print_rest(const std::filesystem::path& log, std::streamoff& printed) {
  std::ifstream file(log, std::ios::binary);
  file.seekg(printed);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::cout << text << std::flush;
  printed += std::ssize(text);
}

bool is_running(const Store& store, const RunRecord& run, int attempt) {
  for (const AttemptRecord& record : store.attempts(run.id)) {
    if (record.attempt == attempt) return record.status == RunStatus::kRunning;
  }
  return false;
}

ExitCode logs(const LogsArguments& arguments) {
  require_results(arguments.results);
  const Store store(arguments.results);
  const RunRecord run = find_run(store, arguments.word);
  const AttemptRecord attempt = chosen_attempt(store, run, arguments.attempt);
  const int rank = arguments.rank.value_or(static_cast<int>(attempt.reason_rank.value_or(0)));
  const auto log = RunPaths(arguments.results / run.folder).log(attempt.attempt, rank);
  if (!arguments.follow && !std::filesystem::exists(log)) {
    throw ConfigError("", log.string(),
                      "is not there; rank " + std::to_string(rank) +
                          " was not started, is none of this run's, or its log was deleted");
  }
  std::cerr << "==> " << log.string() << " <==\n";
  std::streamoff printed = 0;
  bool goes_on = arguments.follow;
  while (goes_on) {
    goes_on = is_running(store, run, attempt.attempt) && std::cout.good();
    print_rest(log, printed);
    if (goes_on) std::this_thread::sleep_for(kFollowInterval);
  }
  print_rest(log, printed);
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_logs_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("logs", "Print what a rank of a run has written");
  const auto arguments = std::make_shared<LogsArguments>();
  command.footer(R"(Examples:
  fsdp-run logs 4xFSDP --rank 2
  fsdp-run logs 4xFSDP --follow)");
  command.add_option("RUN", arguments->word, kRunWordHelp)->required()->option_text(" ");
  command
      .add_option("--rank", arguments->rank, "Of this rank (default: the one that failed, else 0)")
      ->check(CLI::NonNegativeNumber)
      ->option_text("N");
  command.add_option("--attempt", arguments->attempt, "Of this attempt (default: the newest)")
      ->check(CLI::PositiveNumber)
      ->option_text("N");
  command.add_flag("--follow", arguments->follow, "Go on until the run has ended");
  add_results_option(command, arguments->results);
  return [arguments] { return logs(*arguments); };
}

}  // namespace fsdp
