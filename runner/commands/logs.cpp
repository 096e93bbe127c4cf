#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <thread>

#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "runner/commands/commands.h"
#include "runner/commands/console.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/table/names.h"

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

// The logs of one run. They are read anew each time, because others write to them.
class RunLogs {
 public:
  explicit RunLogs(const LogsArguments& arguments)
      : arguments_(arguments), store_(existing_results(arguments.results)) {
    refresh();
    run_ = find_run(store_, arguments.word);
  }

  // Prints an attempt's log; with --follow, until the attempt ends. Then prints the logs of later
  // attempts, unless the user named the attempt.
  void print() {
    begin(first_attempt());
    for (;;) {
      const bool may_go_on = !arguments_.attempt && has_open_job(store_, run_);
      const bool goes_on = (may_go_on || is_running()) && std::cout.good();
      const std::vector<int> known = attempts();
      print_rest();
      if (!arguments_.follow) return;
      const auto next = std::ranges::upper_bound(known, attempt_);
      if (!arguments_.attempt && next != known.end()) {
        begin(*next);
      } else if (goes_on) {
        pause();
      } else {
        return;
      }
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  RunPaths paths() const { return RunPaths(arguments_.results / run_.folder); }

  std::optional<AttemptRecord> recorded(int attempt) const {
    const std::vector<AttemptRecord> attempts = store_.attempts(run_.id);
    const auto found = std::ranges::find(attempts, attempt, &AttemptRecord::attempt);
    return found == attempts.end() ? std::nullopt : std::optional(*found);
  }

  bool is_running() const {
    if (const auto record = recorded(attempt_)) return record->status == RunStatus::kRunning;
    return !std::filesystem::exists(paths().end_record(attempt_));
  }

  // Returns the attempts in the store, and newer ones that a job has begun since.
  std::vector<int> attempts() const {
    std::vector<int> numbers = mapped(store_.attempts(run_.id), &AttemptRecord::attempt);
    int next = numbers.empty() ? 1 : numbers.back() + 1;
    for (; std::filesystem::exists(paths().attempt(next)); ++next) {
      if (std::filesystem::exists(paths().launch_record(next))) numbers.push_back(next);
    }
    return numbers;
  }

  std::string why_there_is_no_attempt() const {
    const std::optional<JobRecord> job = newest_job(store_, run_);
    if (!job) return "was not started yet, so it has no log";
    const std::string output = job_output(*job, arguments_.results);
    if (!job->tasks.front().over) {
      return fmt::format("waits in {}, so it has no log yet; the job's own output: {}",
                         job_text(*job), output);
    }
    const std::string reason = store_.run(run_.id).value_or(run_).reason;
    return fmt::format("no attempt started in {}{}{}; the job's own output: {}", job_text(*job),
                       reason.empty() ? "" : ": ", reason, output);
  }

  // Returns the first attempt to print. Waits for it if the user follows a run with a waiting job.
  int first_attempt() {
    for (std::string said;;) {
      const bool may_come = arguments_.follow && has_open_job(store_, run_) && std::cout.good();
      const std::vector<int> known = attempts();
      if (!known.empty()) {
        const int chosen = arguments_.attempt.value_or(known.back());
        if (std::ranges::find(known, chosen) != known.end()) return chosen;
        throw ConfigError(
            "--attempt", std::to_string(chosen),
            fmt::format("there is no such attempt; allowed: {}", fmt::join(known, ", ")));
      }
      const std::string why = why_there_is_no_attempt();
      if (!may_come) throw ConfigError("", run_.point, why);
      if (why != said) std::cerr << visible_line(run_.point + ": " + why) << '\n';
      said = why;
      pause();
    }
  }

  // Begins the log of the rank that failed, else of rank 0, unless the user named a rank.
  void begin(int attempt) {
    const std::optional<AttemptRecord> record = recorded(attempt);
    const int64_t failed = record ? record->reason_rank.value_or(0) : 0;
    const int rank = arguments_.rank.value_or(static_cast<int>(failed));
    attempt_ = attempt;
    log_ = paths().log(attempt, rank);
    printed_ = 0;
    if (!arguments_.follow && !std::filesystem::exists(log_)) {
      throw ConfigError("", log_.string(),
                        fmt::format("does not exist: rank {} was not started, the run has no such "
                                    "rank, or the log was deleted",
                                    rank));
    }
    std::cerr << "==> " << visible_line(log_.string()) << " <==\n";
  }

  // Opens the file anew each time, because that shows new data on network file systems.
  void print_rest() {
    std::ifstream file(log_, std::ios::binary);
    file.seekg(printed_);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    SafeStreams::write_program_output(text);
    printed_ += std::ssize(text);
  }

  // Waits for new data. Refreshes the open jobs, because perhaps nobody else follows them.
  void pause() {
    std::this_thread::sleep_for(kFollowInterval);
    if (Clock::now() - refreshed_ >= kRefreshInterval) refresh();
  }

  void refresh() {
    refresh_open_jobs(store_, arguments_.results);
    refreshed_ = Clock::now();
  }

  const LogsArguments& arguments_;
  Store store_;
  RunRecord run_;
  Clock::time_point refreshed_;
  int attempt_ = 0;
  std::filesystem::path log_;
  std::streamoff printed_ = 0;  // bytes of the log
};

}  // namespace

CommandFunction add_logs_command(CLI::App& command) {
  const auto arguments = std::make_shared<LogsArguments>();
  command.footer(R"(Examples:
  fsdp-run logs 4xFSDP --rank 2
  fsdp-run logs 4xFSDP --follow            also while its job waits)");
  command.add_option("RUN", arguments->word, kRunWordHelp)->required();
  add_option(command, "--rank N", arguments->rank,
             "Log of this rank (default: the one that failed, else 0)")
      ->check(CLI::NonNegativeNumber);
  add_option(command, "--attempt N", arguments->attempt,
             "Log of this attempt (default: the newest)")
      ->check(CLI::PositiveNumber);
  command.add_flag("--follow", arguments->follow, "Go on until the run has ended");
  add_results_option(command, arguments->results);
  return [arguments] {
    RunLogs(*arguments).print();
    return ExitCode::kOk;
  };
}

}  // namespace fsdp
