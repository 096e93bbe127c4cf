#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <iostream>
#include <memory>
#include <ranges>

#include "contract/spec/run_spec_keys.h"
#include "contract/text/config_error.h"
#include "contract/text/utf8.h"
#include "runner/commands/commands.h"
#include "runner/commands/options.h"
#include "runner/commands/print_report.h"
#include "runner/experiment/doubling_series.h"
#include "runner/plan/changes.h"
#include "runner/plan/experiment_plans.h"
#include "runner/plan/plan_report.h"
#include "runner/report/terminal_text.h"

namespace fsdp {
namespace {

struct PlanArguments {
  Choice choice;
  std::optional<std::string> gpu;
  std::string ranks;
  std::string largest;
  bool suggest = false;
  PlanFormat format = PlanFormat::kTable;
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
};

// "4", "1,2,8", or doubled from the first to the last: "1..64".
std::vector<int64_t> rank_counts(const std::string& text) {
  const auto refuse = [&] {
    throw ConfigError("--ranks", text, "is no list of numbers; allowed: 4, 1,2,8 or 1..1024");
  };
  const auto number = [&](std::string_view digits) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 1) refuse();
    return value;
  };
  std::vector<int64_t> counts;
  if (const size_t dots = text.find(".."); dots != std::string::npos) {
    const int64_t last = number(std::string_view(text).substr(dots + 2));
    for (int64_t count = number(std::string_view(text).substr(0, dots)); count <= last;
         count *= 2) {
      counts.push_back(count);
    }
  } else {
    for (const auto& part : std::views::split(std::string_view(text), ',')) {
      counts.push_back(number(std::string_view(part.begin(), part.end())));
    }
  }
  if (counts.empty()) refuse();
  return counts;
}

std::vector<PlannedRow> rows_by_ranks(ExperimentPlans& plans, const Run& run,
                                      const std::vector<int64_t>& counts) {
  if (run.spec.strategy.kind == StrategyKind::kSingle) return {plans.plan(run)};
  std::vector<PlannedRow> rows;
  for (const int64_t count : counts) {
    const std::string set = fmt::format("strategy.ranks={}", count);
    rows.push_back(plans.plan_with(run, {set}, fmt::format(" ranks={}", count)));
    rows.back().spec.strategy.ranks = count;
  }
  return rows;
}

// The run as it is, then with each change that the run may have and that saves memory.
std::vector<PlannedRow> rows_of_changes(ExperimentPlans& plans, const Run& run,
                                        std::vector<std::string>& remarks) {
  std::vector<PlannedRow> rows{plans.plan(run)};
  if (!rows.front().plan) return rows;
  const int64_t bytes = rows.front().plan->memory_device_bytes_max;
  bool is_first_that_fits = rows.front().plan->fit == Fit::kDoesNotFit;
  for (const Change& change : changes_that_save_memory()) {
    std::vector<std::string> set;
    for (const auto& part : std::views::split(change.set, ' ')) {
      set.emplace_back(part.begin(), part.end());
    }
    PlannedRow row = plans.plan_with(run, set, fmt::format(" + {}", change.name));
    if (!row.plan || row.plan->memory_device_bytes_max >= bytes) continue;
    const double saved = static_cast<double>(bytes - row.plan->memory_device_bytes_max) / 0x1p30;
    const bool makes_it_fit = is_first_that_fits && row.plan->fit != Fit::kDoesNotFit;
    remarks.push_back(fmt::format("{} ({}): {:.2f} GiB less; {}{}.", row.point,
                                  fmt::join(set, ", "), saved, change.cost,
                                  makes_it_fit ? ": the least change that makes it fit" : ""));
    if (makes_it_fit) is_first_that_fits = false;
    rows.push_back(std::move(row));
  }
  return rows;
}

ExitCode plan(const PlanArguments& arguments) {
  if (!arguments.largest.empty() && !is_integer_key(arguments.largest)) {
    throw ConfigError("--max", arguments.largest,
                      "is no key that holds a number" + allowed_instead_of(arguments.largest));
  }
  ExperimentPlans plans(arguments.choice.file, arguments.choice.expand,
                        find_host(arguments.choice.gpus), arguments.gpu,
                        find_trainer(arguments.trainer), arguments.results);
  const std::vector<int64_t> counts =
      arguments.ranks.empty() ? std::vector<int64_t>() : rank_counts(arguments.ranks);
  std::vector<PlannedRow> rows;
  std::vector<std::string> remarks;
  for (const Run& run : plans.runs()) {
    const auto add = [&](std::vector<PlannedRow> more) {
      std::ranges::move(more, std::back_inserter(rows));
    };
    if (!counts.empty()) {
      add(rows_by_ranks(plans, run, counts));
    } else if (!arguments.largest.empty()) {
      rows.push_back(plans.plan_largest(run, arguments.largest));
    } else if (arguments.suggest) {
      add(rows_of_changes(plans, run, remarks));
    } else if (run.doubling) {
      rows.push_back(plans.plan_largest(run, run.doubling->key()));
    } else {
      rows.push_back(plans.plan(run));
    }
  }
  std::cout << render_plans(arguments.format, rows, stdout_columns());
  if (arguments.format != PlanFormat::kJson) {
    for (const std::string& remark : remarks) std::cout << wrapped("", visible_line(remark), 2, 80);
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_plan_command(CLI::App& command) {
  const auto arguments = std::make_shared<PlanArguments>();
  command.footer(R"(Examples:
  fsdp-run plan experiments/lab.yaml --profile a100x4
  fsdp-run plan experiments/lab.yaml --gpu h100-80 --max batch.size_per_rank
  fsdp-run plan experiments/chess.yaml --gpu a100-40 --suggest --only FSDP
  fsdp-run plan experiments/llama3_8b.yaml --gpu a100-80 --ranks 1..64)");
  add_choice_options(command, arguments->choice);
  add_option(command, "--gpu NAME", arguments->gpu,
             "Plan for this GPU, such as a100-80 (default: this host's, or the profile's)");
  auto* ranks = add_option(command, "--ranks LIST", arguments->ranks,
                           "Plan ddp and fsdp with so many ranks: 4, 1,2,8 or 1..1024");
  auto* largest = add_option(command, "--max KEY", arguments->largest,
                             "Show the largest value of a key that fits, such as "
                             "batch.size_per_rank or data.sequence_length");
  auto* suggest = command.add_flag("--suggest", arguments->suggest,
                                   "Show which changes would save how much memory");
  ranks->excludes(largest)->excludes(suggest);
  largest->excludes(suggest);
  add_named_option(command, "--format FORMAT=table", arguments->format, "table, markdown or json");
  add_results_option(command, arguments->results);
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return plan(*arguments); };
}

}  // namespace fsdp
