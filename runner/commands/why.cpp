// Tells where a run's time and memory go, and why they differ from another run's.
#include "runner/answers/why.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "base/system/processor.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "runner/commands/console.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/commands/report.h"
#include "runner/plan/key_shares.h"
#include "runner/plan/suggestions.h"
#include "runner/series/speeds.h"
#include "runner/table/number_text.h"
#include "runner/table/table.h"

namespace fsdp {
namespace {

struct WhyArguments {
  std::string run;
  std::string baseline;  // empty: none
  std::vector<std::string> results{"results"};
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
};

// Returns the run's row with its uses of memory. Throws ConfigError if it has no measured step.
ComparisonRow measured_run(const Store& store, const std::string& word) {
  const RunRecord run = find_run(store, word);
  Report report;
  read_rows(report, store, {run.experiment}, {}, Listed::kEver);
  const auto found = std::ranges::find(report.rows, run.id, &ComparisonRow::run);
  if (found == report.rows.end() || !found->step_time_ms_median) {
    throw ConfigError(word, "", fmt::format("run {} has not measured a step", run_label(run)));
  }
  return *found;
}

// The parts of one figure of the run, and of the baseline if there is one.
struct Side {
  double total = 0;
  Parts parts{};

  // Returns nullopt if there is no such part.
  std::optional<double> of(const std::string& name) const {
    const auto found = std::ranges::find(parts, name, &Parts::value_type::first);
    return found == parts.end() ? std::nullopt : std::optional(found->second);
  }
};

// Adds the figure and its parts. `unit` is what the table shows figures in.
void add_parts(Table& table, const std::string& title, double unit, const Side& own,
               const std::optional<Side>& baseline) {
  constexpr double kPercent = 100;
  const auto add = [&](const std::string& name, double figure, double of_baseline) {
    std::vector<Cell> cells{name, three_digits(figure / unit)};
    if (baseline) {
      const double more = (figure - of_baseline) / unit;
      cells.emplace_back(three_digits(of_baseline / unit));
      cells.emplace_back((more > 0 ? "+" : "") + three_digits(more));
    } else {
      cells.emplace_back(whole_percent(kPercent * figure / own.total));
    }
    table.add(std::move(cells));
  };
  add(title, own.total, baseline ? baseline->total : 0);
  for (const auto& [name, figure] : own.parts) {
    const double other = baseline ? baseline->of(name).value_or(0) : 0;
    if (figure != 0 || other != 0) add("  " + name, figure, other);
  }
  if (!baseline) return;
  for (const auto& [name, figure] : baseline->parts) {
    if (figure != 0 && !own.of(name)) add("  " + name, 0, figure);
  }
}

Side time_side(const Explained& of) {
  Side side{.parts = time_parts(of)};
  for (const auto& [name, part] : side.parts) side.total += part;
  return side;
}

Side memory_side(const Explained& of) {
  return {.total = of.allocated_bytes.value_or(0), .parts = memory_parts(of)};
}

// Starts the planning of runs for the device of `run`.
ExperimentPlans plans_of(const WhyArguments& arguments, const ComparisonRow& run,
                         const Expansion& expansion) {
  PlanTarget target;
  if (run.spec.device == DeviceKind::kCuda) target.gpu = run.device_name;
  return {expansion, find_host({}), target, find_trainer(arguments.trainer),
          arguments.results.front()};
}

// Returns each differing key's share of the difference, as the trainer plans it for the runs'
// device. Empty: one key differs, or nothing can be planned.
std::string planned_shares(const WhyArguments& arguments, const ComparisonRow& run,
                           const ComparisonRow& baseline) {
  const Expansion no_experiment;
  try {
    ExperimentPlans plans = plans_of(arguments, run, no_experiment);
    return key_shares_text(plans, run.spec, baseline.spec);
  } catch (const std::exception& error) {
    return fmt::format("the shares of keys are not known: {}", error.what());
  }
}

// Says why the run's step differs from its plan, and which settings the plans prefer. This host
// plans no run of another kind of CPU, or with more memory than is left here.
std::vector<std::string> advice(const WhyArguments& arguments, const ComparisonRow& run) {
  const std::vector<std::string> elsewhere{
      "What would help: `fsdp-run plan FILE --suggest` with the experiment's file."};
  const bool is_cpu = run.spec.device != DeviceKind::kCuda;
  if (is_cpu && run.device_name != processor_name()) return elsewhere;
  const Expansion alone = expansion_of(run.point, run.spec);
  try {
    ExperimentPlans plans = plans_of(arguments, run, alone);
    Suggestions suggestions = suggestions_for(plans, alone.runs.front());
    const PlannedRow& planned = suggestions.rows.front();
    if (!planned.plan) return {"What would help is not known: " + planned.problem};
    if (is_cpu && planned.plan->fit == Fit::kDoesNotFit) return elsewhere;
    std::vector<std::string> lines;
    if (const auto change = time_change(explained(run), explained(run.spec, *planned.plan))) {
      lines.push_back(fmt::format("{} against its plan: {}", run.point, time_change_text(*change)));
    }
    for (const std::string& remark : suggestions.remarks) {
      lines.push_back("As planned, " + remark);
    }
    return lines;
  } catch (const std::exception& error) {
    return {fmt::format("What would help is not known: {}", error.what())};
  }
}

// Returns why the times of two runs cannot be compared; empty: they can.
std::string times_apart(const ComparisonRow& run, const ComparisonRow& other) {
  if (run.device_name != other.device_name) {
    return fmt::format("times are not compared: {} ran on {}, {} on {}", run.point, run.device_name,
                       other.point, other.device_name);
  }
  return run.parameter_count == other.parameter_count ? ""
                                                      : "times are not compared: the models differ";
}

// Returns a run without `has`, of the two; null: both have it.
template <typename Has>
const ComparisonRow* one_without(const ComparisonRow& run, const ComparisonRow* other, Has has) {
  if (!has(run)) return &run;
  return other != nullptr && !has(*other) ? other : nullptr;
}

// Prints the parts of time and of memory. Sentences say which of them are not known, or doubtful.
void print_parts(const ComparisonRow& run, const ComparisonRow* other) {
  Table table{.columns = {{.heading = "", .is_left = true}, {.heading = run.point}}};
  table.columns.push_back({.heading = other ? other->point : "%"});
  if (other) table.columns.push_back({.heading = "difference"});
  std::vector<std::string> remarks;
  const Explained own = explained(run);
  const Explained baseline = other ? explained(*other) : own;
  const auto add = [&](const std::string& title, double unit, Side (*side)(const Explained&),
                       auto has, std::string_view what) {
    if (const ComparisonRow* without = one_without(run, other, has)) {
      remarks.push_back(visible_line(fmt::format("{} has no {}", without->point, what)));
      return;
    }
    add_parts(table, title, unit, side(own),
              other ? std::optional(side(with_tokens_of(own, baseline))) : std::nullopt);
  };
  const std::string apart = other ? times_apart(run, *other) : "";
  if (apart.empty()) {
    add(
        time_unit(own, baseline), 1, time_side,
        [](auto& row) { return row.account_rank.has_value(); },
        "account of its steps: an older version ran it, or train.account_steps is 0");
    for (const ComparisonRow* row : {&run, other}) {
      const std::string doubt = row != nullptr ? doubt_of(*row) : "";
      if (doubt.empty() || !row->account_rank) continue;
      remarks.push_back(
          visible_line(fmt::format("the times of {} prove little: {}", row->point, doubt)));
    }
  } else {
    remarks.push_back(visible_line(apart));
  }
  add(
      "GiB at the peak of a rank", kBytesPerGibibyte, memory_side,
      [](auto& row) { return row.memory_by_use.has_value(); }, "record of what used its memory");
  if (!table.blocks.empty()) {
    for (const std::string& line : lay_out(table, {}).all()) std::cout << line << '\n';
  }
  for (const std::string& sentence : remarks) std::cout << sentence << '\n';
}

void print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (!line.empty()) std::cout << visible_line(line) << '\n';
  }
}

void print_reasons(const WhyArguments& arguments, const ComparisonRow& run,
                   const ComparisonRow& other) {
  Explained own = explained(run);
  if (!times_apart(run, other).empty()) own.time.reset();
  print_lines({fmt::format("{} against {}:", run.point, other.point)});
  print_lines(change_texts(own, explained(other)));
  print_lines({planned_shares(arguments, run, other)});
}

ExitCode why(const WhyArguments& arguments) {
  const Store store = existing_results(arguments.results);
  const ComparisonRow run = measured_run(store, arguments.run);
  std::optional<ComparisonRow> other;
  if (!arguments.baseline.empty()) other = measured_run(store, arguments.baseline);
  print_parts(run, other ? &*other : nullptr);
  if (!other) {
    std::cout << '\n';
    print_lines({peak_text(run)});
    print_lines(advice(arguments, run));
    return ExitCode::kOk;
  }
  std::cout << '\n';
  print_reasons(arguments, run, *other);
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_why_command(CLI::App& command) {
  const auto arguments = std::make_shared<WhyArguments>();
  command.footer(R"(Examples:
  fsdp-run why 4xFSDP
  fsdp-run why 4xFSDP 4xDDP
  fsdp-run why alice/lab/4xFSDP bob/lab/4xFSDP --results alice --results bob)");
  command.add_option("RUN", arguments->run, kRunWordHelp)->required();
  command.add_option("BASELINE", arguments->baseline, "The run to compare it with");
  add_results_option(command, arguments->results);
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return why(*arguments); };
}

}  // namespace fsdp
