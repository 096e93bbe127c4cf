#include <algorithm>
#include <charconv>
#include <chrono>
#include <iostream>
#include <memory>
#include <ranges>

#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/answers/why.h"
#include "runner/commands/check.h"
#include "runner/commands/console.h"
#include "runner/commands/options.h"
#include "runner/export/export.h"
#include "runner/plan/key_shares.h"
#include "runner/plan/plan_report.h"
#include "runner/plan/planner.h"
#include "runner/plan/suggestions.h"
#include "runner/progress/live_view.h"
#include "runner/table/number_text.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr double kMostPrice = 1e9;

struct PlanArguments : TrainerQuestion {
  PlanTarget target;
  std::string ranks;
  std::string largest;
  bool suggest = false;
  bool why = false;
  bool require_fit = false;
  std::optional<std::filesystem::path> trace;  // folder
  std::optional<double> price;                 // of an hour of a GPU, or of a rank on the CPU
  Output<PlanFormat> output;
};

// Says on stderr which run is planned, if plans take long: on a terminal in one line that is erased
// at the end, else in a line every 15 s.
class PlanProgress {
 public:
  void show(const std::string& point) {
    const bool is_terminal = TerminalLine::is_possible();
    const auto now = std::chrono::steady_clock::now();
    if (now - said_at_ < std::chrono::seconds(is_terminal ? 1 : 15)) return;
    said_at_ = now;
    const std::string text = "planning " + visible_line(point);
    if (is_terminal)
      return line_.draw("", display_cut(text, std::max<size_t>(terminal_size().columns, 2) - 1));
    std::cerr << text << std::endl;
  }

 private:
  TerminalLine line_;
  std::chrono::steady_clock::time_point said_at_ = std::chrono::steady_clock::now();
};

// Parses "4", "1,2,8", or "1..64", which doubles from the first number to the last.
std::vector<int64_t> rank_counts(const std::string& text) {
  const auto most = static_cast<int64_t>(range_of_key("strategy.ranks").maximum);
  const auto refuse = [&] {
    throw ConfigError("--ranks", text,
                      fmt::format("is not a list of numbers from 1 to {}; allowed: a number, a "
                                  "list (1,2,8) or a range (1..1024)",
                                  most));
  };
  const auto number = [&](std::string_view digits) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool is_number = error == std::errc() && end == digits.data() + digits.size();
    if (!is_number || value < 1 || value > most) refuse();
    return value;
  };
  std::vector<int64_t> counts;
  if (const size_t dots = text.find(".."); dots != std::string::npos) {
    const int64_t last = number(std::string_view(text).substr(dots + 2));
    counts.push_back(number(std::string_view(text).substr(0, dots)));
    while (counts.back() <= last / 2) counts.push_back(2 * counts.back());
    if (counts.front() > last) refuse();
    return counts;
  }
  for (const auto& part : std::views::split(std::string_view(text), ',')) {
    counts.push_back(number(std::string_view(part.begin(), part.end())));
  }
  return counts;
}

std::vector<PlannedRow> rows_by_ranks(ExperimentPlans& plans, const Run& run,
                                      const std::vector<int64_t>& counts) {
  if (run.spec.strategy.kind == StrategyKind::kSingle) return {plans.plan(run)};
  std::vector<PlannedRow> rows;
  for (const int64_t count : counts) {
    rows.push_back(plans.plan_value(run, "strategy.ranks", count, fmt::format(" ranks={}", count)));
    rows.back().spec.strategy.ranks = count;
  }
  return rows;
}

// Expands the experiment. This host need not be able to run it.
Expansion expanded(const Experiment& experiment, const PlanArguments& arguments,
                   const std::optional<Host>& host) {
  ExpandOptions options = arguments.choice.expand;
  options.check_gpus = false;
  options.for_any_gpu = arguments.target.gpu.has_value();
  return experiment.expand(options, planned_resources(arguments.target, host));
}

// Sets the cost of each row. Adds a remark with the cost of all runs, if each has one row.
void add_costs(PlanReport& report, double price, const std::vector<int64_t>& repeats) {
  double all = 0;
  bool is_known = report.rows.size() == repeats.size();
  for (size_t i = 0; i < report.rows.size(); ++i) {
    PlannedRow& row = report.rows[i];
    if (row.hours) {
      row.cost = *row.hours * static_cast<double>(row.spec.strategy.ranks) * price;
    }
    is_known = is_known && row.cost;
    if (is_known) all += *row.cost * static_cast<double>(repeats[i]);
  }
  if (is_known) {
    report.remarks.push_back(
        fmt::format("All runs, with their repeats, cost {} if an hour of a GPU costs {}.",
                    three_digits(all), three_digits(price)));
    return;
  }
  const auto without = [&](auto has) {
    return std::ranges::any_of(report.rows,
                               [&](const PlannedRow& row) { return row.plan && !has(row); });
  };
  std::vector<std::string> missing;
  if (without([](const PlannedRow& row) { return is_calibrated(*row.plan); })) {
    missing.push_back("the time of a step: run fsdp-run calibrate on these devices");
  }
  if (without([](const PlannedRow& row) { return row.spec.train.steps.has_value(); })) {
    missing.push_back("the number of steps: set train.steps instead of train.epochs");
  }
  if (missing.empty()) return;
  report.remarks.push_back(
      fmt::format("--price does not know, for each run, {}.", fmt::join(missing, ", and ")));
}

// Says why each planned row differs from the first one.
std::vector<std::string> reasons(const std::vector<PlannedRow>& rows, ExperimentPlans& plans) {
  std::vector<std::string> texts;
  const auto first = std::ranges::find_if(rows, [](auto& row) { return row.plan.has_value(); });
  for (auto row = first; row != rows.end(); ++row) {
    if (row == first || !row->plan) continue;
    std::vector<std::string> parts =
        change_texts(explained(row->spec, *row->plan), explained(first->spec, *first->plan));
    parts.push_back(key_shares_text(plans, row->spec, first->spec));
    std::erase(parts, "");
    texts.push_back(visible_line(
        fmt::format("Why: {} against {}: {}.", row->point, first->point, fmt::join(parts, "; "))));
  }
  return texts;
}

// Writes one rank of each row: its memory, <point>.pickle, and its step, <point>.json.gz. The ranks
// are alike.
void write_planned_traces(const std::filesystem::path& folder, const std::vector<PlannedRow>& rows,
                          ExperimentPlans& plans, std::vector<std::string>& remarks) {
  for (const PlannedRow& row : rows) {
    if (!row.plan) continue;
    RankTrace trace = plans.trace_of(row.spec);
    const std::filesystem::path file = folder / file_name_of(row.point);
    write_memory_snapshot(file.string() + ".pickle", std::exchange(trace.memory, {}));
    if (trace.steps.empty()) {
      remarks.push_back(visible_line(row.point) +
                        " has no trace of time: run fsdp-run calibrate on these devices.");
      continue;
    }
    RunStarted rank;
    rank.world_size = row.spec.strategy.ranks;
    rank.host = "a planned node";
    rank.device_name = row.device;
    write_trace(file.string() + ".json.gz", rank, trace);
  }
}

void make_trace_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (std::filesystem::is_directory(folder)) return;
  throw ConfigError(
      "--trace", folder.string(),
      "is not a folder, and cannot be made" + (error ? ": " + error.message() : std::string()));
}

ExitCode plan(const PlanArguments& arguments) {
  const PlanFormat format = arguments.output.format();
  if (!arguments.largest.empty() && !is_integer_key(arguments.largest)) {
    throw ConfigError("--max", arguments.largest,
                      "is not a key that holds an integer" + allowed_instead_of(arguments.largest));
  }
  if (arguments.largest == "strategy.ranks") {
    throw ConfigError("--max", arguments.largest,
                      "has no largest value: with more ranks, each needs no more memory; to plan "
                      "several numbers of ranks: --ranks 1..8");
  }
  if (arguments.trace) make_trace_folder(*arguments.trace);
  std::optional<Host> host = find_host(arguments.choice.gpus);
  if (arguments.choice.expand.on_cluster) host.reset();
  const Experiment experiment = Experiment::load(arguments.choice.file);
  const Expansion expansion = expanded(experiment, arguments, host);
  ExperimentPlans plans(expansion, host, arguments.target, find_trainer(arguments.trainer),
                        arguments.results);
  std::optional<PlanProgress> progress(std::in_place);
  plans.set_observer([&](const std::string& point) { progress->show(point); });
  const std::vector<int64_t> counts =
      arguments.ranks.empty() ? std::vector<int64_t>() : rank_counts(arguments.ranks);
  PlanReport report{.experiment = experiment.name(),
                    .profile = expansion.profile,
                    .profile_reason = expansion.profile_reason,
                    .rows = {},
                    .remarks = {}};
  for (const std::string& sentence : expansion.overridden) report.remarks.push_back(sentence + '.');
  if (host && !arguments.target.gpu) {
    for (const std::string& warning :
         gpu_warnings(expansion, host->gpus, trainer_path(arguments.trainer))) {
      report.remarks.push_back("This host's GPUs cannot be used: " + warning + '.');
    }
  }
  std::set<const Change*> changes;
  std::vector<int64_t> repeats;
  for (const Run& run : first_repeats(expansion)) {
    repeats.push_back(std::ranges::count(expansion.runs, run.series, &Run::series));
    const auto add = [&](std::vector<PlannedRow> more) {
      std::ranges::move(more, std::back_inserter(report.rows));
    };
    if (!counts.empty()) {
      add(rows_by_ranks(plans, run, counts));
    } else if (!arguments.largest.empty()) {
      report.rows.push_back(plans.plan_largest(run, arguments.largest));
    } else if (arguments.suggest) {
      Suggestions suggestions = suggestions_for(plans, run);
      add(std::move(suggestions.rows));
      std::ranges::move(suggestions.remarks, std::back_inserter(report.remarks));
      changes.merge(suggestions.changes);
    } else if (run.doubling) {
      report.rows.push_back(plans.plan_expected(run));
    } else {
      report.rows.push_back(plans.plan(run));
    }
  }
  std::ranges::move(legend_of(changes), std::back_inserter(report.remarks));
  if (arguments.why) {
    std::ranges::move(reasons(report.rows, plans), std::back_inserter(report.remarks));
  }
  if (arguments.trace) {
    write_planned_traces(*arguments.trace, report.rows, plans, report.remarks);
  }
  if (arguments.price) add_costs(report, *arguments.price, repeats);
  if (format == PlanFormat::kJson || format == PlanFormat::kHtml) {
    for (PlannedRow& row : report.rows) {
      if (!row.is_suggested) plans.add_timeline(row);
    }
  }
  progress.reset();
  write_output(arguments.output.file, render_plans(format, report, stdout_columns()));
  return arguments.require_fit ? required_fit(report.rows) : ExitCode::kOk;
}

}  // namespace

CommandFunction add_plan_command(CLI::App& command) {
  const auto arguments = std::make_shared<PlanArguments>();
  command.footer(R"(Examples:
  fsdp-run plan experiments/lab.yaml --profile a100x4
  fsdp-run plan experiments/lab.yaml --gpu h100-80 --max batch.size_per_rank
  fsdp-run plan experiments/chess.yaml --gpu a100-40 --suggest --only FSDP
  fsdp-run plan experiments/llama3_8b.yaml --gpu a100-80 --ranks 1..64
  fsdp-run plan experiments/lab.yaml --output plan.html
  fsdp-run plan experiments/lab.yaml --gpu h100-80 --require-fit --format json)");
  add_choice_options(command, arguments->choice);
  add_option(command, "--gpu NAME", arguments->target.gpu,
             "Plan for this GPU: a100-80, t4, 24GB (default: this host's, or the profile's)");
  add_option(command, "--host-memory-gib N", arguments->target.host_memory_gib,
             "Memory of each node (default: slurm.mem, or this host's if the runs start here)")
      ->check(number_within(0.001, kMostMemoryGib, "from 0.001 to 1000000"));
  auto* ranks = add_option(command, "--ranks LIST", arguments->ranks,
                           "Plan ddp and fsdp with these numbers of ranks: 4, 1,2,8 or 1..1024");
  auto* largest = add_option(command, "--max KEY", arguments->largest,
                             "Show the largest value of a key that fits, such as "
                             "batch.size_per_rank or data.sequence_length");
  auto* suggest =
      command.add_flag("--suggest", arguments->suggest,
                       "Show the fastest setting that fits, and what each change saves and costs");
  command.add_flag("--why", arguments->why,
                   "Say why each row takes more or less memory and time than the first one");
  add_option(command, "--trace DIR", arguments->trace,
             "Write each point's planned step, for Perfetto, and memory, for PyTorch's memory_viz, "
             "into this folder");
  add_option(command, "--price N", arguments->price,
             "Price of an hour of a GPU, in any currency: adds what each run and all runs cost")
      ->check(number_within(0, kMostPrice, "from 0 to 1000000000"));
  add_require_fit_option(command, arguments->require_fit);
  ranks->excludes(largest)->excludes(suggest);
  largest->excludes(suggest);
  add_output_options(command, arguments->output);
  add_results_option(command, arguments->results);
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return plan(*arguments); };
}

}  // namespace fsdp
