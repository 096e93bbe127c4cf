#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <tuple>

#include "base/system/unix_time.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "runner/commands/commands.h"
#include "runner/commands/console.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/commands/run_statuses.h"
#include "runner/progress/run_progress.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"
#include "runner/table/table.h"
#include "runner/table/terminal_text.h"

// The commands that show runs under way: status and logs.
namespace fsdp {
namespace {

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

// --- status ---

constexpr size_t kMostRows = 20;
constexpr std::chrono::seconds kPauseOfWatchers{5};  // of a command that watch repeats

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
  refresh_open_jobs(store, arguments.results, kPauseOfWatchers);
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

// --- logs ---

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
  watch -n 2 fsdp-run status)");
  command.add_option("EXPERIMENT", arguments->experiments,
                     "Only these experiments: names or files (default: all)");
  command.add_flag("--all", arguments->all,
                   "Show every run (default: those that run or ended last)");
  add_results_option(command, arguments->results);
  return [arguments] { return status(*arguments); };
}

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
