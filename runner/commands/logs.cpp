#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <thread>

#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "runner/commands/console.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/table/names.h"

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

std::string why_there_is_no_attempt(const Store& store, const RunRecord& run,
                                    const std::filesystem::path& results) {
  const std::optional<JobRecord> job = newest_job(store, run);
  if (!job) return "was not started yet, so it has no log";
  const std::string output = job_output(*job, results);
  if (!job->tasks.front().over) {
    return fmt::format("waits in {}, so it has no log yet; the job's own output: {}",
                       job_text(*job), output);
  }
  return fmt::format("no attempt started in {}{}{}; the job's own output: {}", job_text(*job),
                     run.reason.empty() ? "" : ": ", run.reason, output);
}

// Returns the attempt that the user named, else the newest. It may be in the store, or newer: a job
// has begun it since.
int chosen_attempt(const Store& store, const RunRecord& run, const RunPaths& paths,
                   const LogsArguments& arguments) {
  std::vector<int> known = mapped(store.attempts(run.id), &AttemptRecord::attempt);
  for (const int attempt : attempts_with_folder(paths)) {
    const bool is_newer = known.empty() || attempt > known.back();
    if (is_newer && std::filesystem::exists(paths.launch_record(attempt))) known.push_back(attempt);
  }
  if (known.empty()) {
    throw ConfigError("", run.point, why_there_is_no_attempt(store, run, arguments.results));
  }
  const int chosen = arguments.attempt.value_or(known.back());
  if (is_among(known, chosen)) return chosen;
  throw ConfigError("--attempt", std::to_string(chosen),
                    fmt::format("there is no such attempt; allowed: {}", fmt::join(known, ", ")));
}

// Prints the file from byte `begin` on. Returns its length. The file is opened anew for each call,
// because that shows new data on network file systems.
std::streamoff print_from(std::streamoff begin, const std::filesystem::path& log) {
  std::ifstream file(log, std::ios::binary);
  file.seekg(begin);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  SafeStreams::write_program_output(text);
  return begin + std::ssize(text);
}

// Returns nullopt if the attempt is not in the store yet.
std::optional<AttemptRecord> recorded(const Store& store, const RunRecord& run, int attempt) {
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  const auto found = std::ranges::find(attempts, attempt, &AttemptRecord::attempt);
  return found == attempts.end() ? std::nullopt : std::optional(*found);
}

ExitCode logs(const LogsArguments& arguments) {
  Store store = existing_results(arguments.results);
  refresh_open_jobs(store, arguments.results);
  const RunRecord run = find_run(store, arguments.word);
  const RunPaths paths(arguments.results / run.folder);
  const int attempt = chosen_attempt(store, run, paths, arguments);
  const auto is_running = [&] {
    const std::optional<AttemptRecord> record = recorded(store, run, attempt);
    return (!record || record->status == RunStatus::kRunning) &&
           !std::filesystem::exists(paths.end_record(attempt));
  };
  const std::optional<AttemptRecord> record = recorded(store, run, attempt);
  const int64_t failed = record ? record->reason_rank.value_or(0) : 0;
  const int rank = arguments.rank.value_or(static_cast<int>(failed));
  const std::filesystem::path log = paths.log(attempt, rank);
  bool goes_on = arguments.follow && is_running();
  if (!goes_on && !std::filesystem::exists(log)) {
    throw ConfigError("", log.string(),
                      fmt::format("does not exist: rank {} was not started, the run has no such "
                                  "rank, or the log was deleted",
                                  rank));
  }
  std::cerr << "==> " << visible_line(log.string()) << " <==\n";
  std::streamoff printed = print_from(0, log);
  while (goes_on && std::cout.good()) {
    std::this_thread::sleep_for(kFollowInterval);
    goes_on = is_running();
    printed = print_from(printed, log);
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_logs_command(CLI::App& command) {
  const auto arguments = std::make_shared<LogsArguments>();
  command.footer(R"(Examples:
  fsdp-run logs 4xFSDP --rank 2
  fsdp-run logs 4xFSDP --follow)");
  command.add_option("RUN", arguments->word, kRunWordHelp)->required();
  add_option(command, "--rank N", arguments->rank,
             "Log of this rank (default: the one that failed, else 0)")
      ->check(CLI::NonNegativeNumber);
  add_option(command, "--attempt N", arguments->attempt,
             "Log of this attempt (default: the newest)")
      ->check(CLI::PositiveNumber);
  command.add_flag("--follow", arguments->follow, "Go on until the attempt has ended");
  add_results_option(command, arguments->results);
  return [arguments] { return logs(*arguments); };
}

}  // namespace fsdp
