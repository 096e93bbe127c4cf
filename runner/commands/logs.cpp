#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>

#include "contract/record/run_paths.h"
#include "contract/text/config_error.h"
#include "contract/text/utf8.h"
#include "runner/commands/commands.h"
#include "runner/commands/find_run.h"
#include "runner/commands/job_text.h"
#include "runner/commands/options.h"
#include "runner/commands/refresh.h"
#include "runner/commands/safe_streams.h"

namespace fsdp {
namespace {

constexpr std::chrono::milliseconds kFollowInterval{200};
constexpr std::chrono::seconds kRefreshInterval{30};

struct LogsArguments {
  std::string word;
  std::filesystem::path results = "results";
  std::optional<int> rank;
  std::optional<int> attempt;
  bool follow = false;
};

// Brings open jobs up to date, at once and then now and again: perhaps nobody else follows them.
class Refresher {
 public:
  Refresher(Store& store, std::filesystem::path results)
      : store_(store), results_(std::move(results)) {
    refresh_open_jobs(store_, results_);
  }

  // Waits for what may have been written since.
  void pause() {
    std::this_thread::sleep_for(kFollowInterval);
    if (Clock::now() - last_ < kRefreshInterval) return;
    refresh_open_jobs(store_, results_);
    last_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Store& store_;
  std::filesystem::path results_;
  Clock::time_point last_ = Clock::now();
};

// A run as far as logs are concerned, looked at anew on each call: others write what it tells.
class LoggedRun {
 public:
  LoggedRun(const Store& store, RunRecord run, std::filesystem::path results)
      : store_(store),
        run_(std::move(run)),
        results_(std::move(results)),
        paths_(results_ / run_.folder) {}

  const RunPaths& paths() const { return paths_; }

  // Those that the store knows, and newer ones that a job has begun since.
  std::vector<int> attempts() const {
    std::vector<int> numbers;
    for (const AttemptRecord& attempt : store_.attempts(run_.id)) {
      numbers.push_back(attempt.attempt);
    }
    int next = numbers.empty() ? 1 : numbers.back() + 1;
    for (; std::filesystem::exists(paths_.attempt(next)); ++next) {
      if (std::filesystem::exists(paths_.launch_record(next))) numbers.push_back(next);
    }
    return numbers;
  }

  // The one that failed, else the first.
  int rank_of_interest(int attempt) const {
    const std::optional<AttemptRecord> record = recorded(attempt);
    return record ? static_cast<int>(record->reason_rank.value_or(0)) : 0;
  }

  bool is_running(int attempt) const {
    if (const auto record = recorded(attempt)) return record->status == RunStatus::kRunning;
    return !std::filesystem::exists(paths_.end_record(attempt));
  }

  // Whether its job will begin another attempt, or has begun one that is not over.
  bool has_open_job() const { return fsdp::has_open_job(store_, run_); }

  std::string why_there_is_no_attempt() const {
    const std::optional<JobRecord> job = newest_job(store_, run_);
    if (!job) return "was not started yet, so it has no log";
    const std::string output = job_output(*job, results_).string();
    if (!job->tasks.front().over) {
      return "waits in " + job_text(*job) +
             ", so it has no log yet; the job's own output: " + output;
    }
    const std::string reason = store_.run(run_.id).value_or(run_).reason;
    return "no attempt came about in " + job_text(*job) + (reason.empty() ? "" : ": " + reason) +
           "; the job's own output: " + output;
  }

 private:
  std::optional<AttemptRecord> recorded(int attempt) const {
    const std::vector<AttemptRecord> attempts = store_.attempts(run_.id);
    const auto found = std::ranges::find(attempts, attempt, &AttemptRecord::attempt);
    if (found == attempts.end()) return std::nullopt;
    return *found;
  }

  const Store& store_;
  RunRecord run_;
  std::filesystem::path results_;
  RunPaths paths_;
};

// The log of one rank of one attempt, and how much of it was printed.
class LogTail {
 public:
  LogTail(int attempt, std::filesystem::path log) : attempt_(attempt), log_(std::move(log)) {
    std::cerr << "==> " << visible_line(log_.string()) << " <==\n";
  }

  int attempt() const { return attempt_; }

  // Opened anew each time, which shows new data on network file systems.
  void print_rest() {
    std::ifstream file(log_, std::ios::binary);
    file.seekg(printed_);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    SafeStreams::write_program_output(text);
    printed_ += std::ssize(text);
  }

 private:
  int attempt_;
  std::filesystem::path log_;
  std::streamoff printed_ = 0;
};

[[noreturn]] void refuse_attempt(int attempt, const std::vector<int>& attempts) {
  std::string numbers;
  for (const int number : attempts) {
    numbers += (numbers.empty() ? "" : ", ") + std::to_string(number);
  }
  throw ConfigError("--attempt", std::to_string(attempt), "there is none; allowed: " + numbers);
}

// The first one to print; waits for it when the user follows a run whose job waits.
int first_attempt(const LoggedRun& run, const RunRecord& record, const LogsArguments& arguments,
                  Refresher& refresher) {
  for (std::string said;;) {
    const bool may_come = arguments.follow && run.has_open_job() && std::cout.good();
    const std::vector<int> attempts = run.attempts();
    if (attempts.empty()) {
      const std::string why = run.why_there_is_no_attempt();
      if (!may_come) throw ConfigError("", record.point, why);
      if (why != said) std::cerr << visible_line(record.point + ": " + why) << '\n';
      said = why;
      refresher.pause();
      continue;
    }
    const int chosen = arguments.attempt.value_or(attempts.back());
    if (std::ranges::find(attempts, chosen) == attempts.end()) refuse_attempt(chosen, attempts);
    return chosen;
  }
}

LogTail open_log(const LoggedRun& run, int attempt, const LogsArguments& arguments) {
  const int rank = arguments.rank.value_or(run.rank_of_interest(attempt));
  const std::filesystem::path log = run.paths().log(attempt, rank);
  if (!arguments.follow && !std::filesystem::exists(log)) {
    throw ConfigError("", log.string(),
                      "is not there; rank " + std::to_string(rank) +
                          " was not started, is none of this run's, or its log was deleted");
  }
  return LogTail(attempt, log);
}

// Prints the attempt's log and, unless the user named the attempt, those of the attempts that
// follow it, until nothing more will be written.
void follow(const LoggedRun& run, LogTail tail, const LogsArguments& arguments,
            Refresher& refresher) {
  for (;;) {
    const bool may_go_on = !arguments.attempt && run.has_open_job();
    const bool goes_on = (may_go_on || run.is_running(tail.attempt())) && std::cout.good();
    const std::vector<int> attempts = run.attempts();
    tail.print_rest();
    const auto next = std::ranges::upper_bound(attempts, tail.attempt());
    if (!arguments.attempt && next != attempts.end()) {
      tail = open_log(run, *next, arguments);
      continue;
    }
    if (!goes_on) return;
    refresher.pause();
  }
}

ExitCode logs(const LogsArguments& arguments) {
  require_results(arguments.results);
  Store store(arguments.results, StoreUse::kExisting);
  Refresher refresher(store, arguments.results);
  const RunRecord record = find_run(store, arguments.word);
  const LoggedRun run(store, record, arguments.results);
  LogTail tail = open_log(run, first_attempt(run, record, arguments, refresher), arguments);
  if (arguments.follow) {
    follow(run, std::move(tail), arguments, refresher);
  } else {
    tail.print_rest();
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_logs_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("logs", "Print what a rank of a run has written");
  const auto arguments = std::make_shared<LogsArguments>();
  command.footer(R"(Examples:
  fsdp-run logs 4xFSDP --rank 2
  fsdp-run logs 4xFSDP --follow            also while its job waits)");
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
