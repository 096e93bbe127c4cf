#include "runner/commands/check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <tuple>

#include "base/text/utf8.h"
#include "contract/families/family.h"
#include "formats/inputs/inputs.h"
#include "runner/cluster/job_submission.h"
#include "runner/commands/console.h"
#include "runner/commands/options.h"
#include "runner/experiment/doubling_series.h"
#include "runner/host/doctor.h"
#include "runner/plan/planner.h"
#include "runner/run/planned_runs.h"
#include "runner/series/speeds.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"
#include "runner/table/table.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

using RunNames = std::vector<std::string>;

constexpr size_t kMostCheckedRuns = 24;  // fit on a screen

// --- the table ---

constexpr size_t kSequences = 6;
constexpr size_t kParameters = 7;
constexpr size_t kTrained = 8;

std::vector<Column> preflight_columns() {
  return {{.heading = "Point", .is_left = true, .least = 12, .first_cut_to = 28},
          {.heading = "Strategy", .is_left = true, .drop_order = 4},
          {.heading = "Ranks", .drop_order = 6},
          {.heading = "Batch", .drop_order = 5},
          {.heading = "Total\nbatch"},
          {.heading = "Steps"},
          {.heading = "Sequences", .when_known = true, .drop_order = 2},
          {.heading = "Para-\nmeters", .when_known = true, .drop_order = 3},
          {.heading = "Trained", .when_known = true, .drop_order = 3},
          {.heading = "Memory\n[GiB]", .when_known = true},
          {.heading = "Fits", .is_left = true, .when_known = true},
          {.heading = "Checkpoints\n[GiB]", .when_known = true, .drop_order = 1}};
}

std::string strategy_text(const StrategySpec& strategy) {
  return std::string(name_of(strategy.kind)) +
         (strategy.offload == Offload::kNone ? "" : "+offload");
}

// Returns the steps that the run will do. nullopt: they depend on data that is not prepared.
std::optional<int64_t> steps_of(const RunSpec& spec) {
  if (spec.train.steps) return planned_steps(spec, 1);
  // A data set is counted once.
  static std::vector<std::pair<RunSpec, std::optional<int64_t>>> known;
  const auto is_same = [&](const auto& counted) {
    return counted.first.data == spec.data && counted.first.evaluation == spec.evaluation;
  };
  auto found = std::ranges::find_if(known, is_same);
  if (found == known.end()) found = known.insert(known.end(), {spec, training_rows(spec)});
  if (!found->second) return std::nullopt;
  return planned_steps(spec, std::max<int64_t>(1, *found->second / total_batch(spec)));
}

std::string sequences_text(const RunSpec& spec) {
  const std::optional<int64_t> steps = steps_of(spec);
  if (!steps) return "-";
  return fmt::format("{:.0f}",
                     static_cast<double>(*steps) * static_cast<double>(total_batch(spec)));
}

std::string parameters_text(const RunSpec& spec) {
  return short_count(parameter_count(model_config(spec)));
}

// Returns the number of parameters that are trained; "-": all.
std::string trained_text(const RunSpec& spec) {
  if (spec.method == Method::kFull) return "-";
  return short_count(trained_parameter_count(model_config(spec), spec.method, spec.lora));
}

// Returns the most checkpoints of the run that exist at the same time.
int64_t checkpoint_count(const RunSpec& spec) {
  const CheckpointSpec& checkpoint = spec.checkpoint;
  const int64_t steps = steps_of(spec).value_or(0);
  const int64_t every = checkpoint.every_steps.value_or(steps + 1);
  const bool is_last_extra = checkpoint.at_end && (steps == 0 || steps % every != 0);
  int64_t count = steps / every + (is_last_extra ? 1 : 0);
  // An old checkpoint is removed only when the new one is complete.
  if (checkpoint.keep) count = std::min(count, *checkpoint.keep + 1);
  return count + (checkpoint.when_improved ? 1 : 0);
}

double checkpoint_bytes(const PlannedRow& row) {
  if (!row.plan) return 0;
  return static_cast<double>(checkpoint_count(row.spec)) *
         static_cast<double>(row.plan->checkpoint_bytes);
}

// Returns the text that all runs have in common, shown once below the table; empty: they differ.
std::string in_common(const std::vector<Run>& runs, std::string (*text_of)(const RunSpec& spec)) {
  const std::string text = text_of(runs.front().spec);
  const auto is_so = [&](const Run& run) { return text_of(run.spec) == text; };
  return runs.size() > 1 && std::ranges::all_of(runs, is_so) ? text : "";
}

std::vector<Cell> cells_of_run(const Run& run, const PlannedRow& row) {
  const RunSpec& spec = run.spec;
  const std::optional<int64_t> steps = steps_of(spec);
  const double disk = checkpoint_bytes(row);
  return {visible_line(run.series),
          strategy_text(spec.strategy),
          std::to_string(spec.strategy.ranks),
          fmt::format("{}x{}", spec.batch.size_per_rank,
                      spec.batch.gradient_accumulation_steps.value_or(1)),
          std::to_string(total_batch(spec)),
          steps ? std::to_string(*steps) : "-",
          sequences_text(spec),
          parameters_text(spec),
          trained_text(spec),
          row.plan ? gibibytes(static_cast<double>(row.plan->memory_device_bytes_max)) : "-",
          row.plan ? fit_text(row.plan->fit) : "-",
          disk > 0 ? gibibytes(disk) : "-"};
}

// --- warnings ---

// Returns a warning with "4: 1 GPU; 16: 4xDDP, 4xFSDP" if runs differ in a value that changes
// losses.
template <typename Of>
std::string unequal(const Preflight& preflight, const char* what, const char* remedy, Of of) {
  if (preflight.compare == Comparison::kThroughput) return "";
  std::map<int64_t, RunNames> by_value;
  for (const Run& run : first_repeats(preflight.expansion)) {
    if (const std::optional<int64_t> value = of(run.spec)) {
      by_value[*value].push_back(visible_line(run.series));
    }
  }
  if (by_value.size() < 2) return "";
  std::vector<std::string> texts;
  for (const auto& [value, names] : by_value) {
    texts.push_back(fmt::format("{}: {}", value, joined_names(names)));
  }
  return fmt::format(
      "{} differ ({}), so losses cannot be compared; {}. If the experiment is about throughput, "
      "write compare: throughput at its top",
      what, fmt::join(texts, "; "), remedy);
}

// Returns a line for each mistake, with the runs that make it.
std::vector<std::string> warnings_of_runs(const Preflight& preflight) {
  std::vector<std::string> warnings;
  const auto warn = [&](auto holds, const std::string& text) {
    RunNames names;
    for (const Run& run : first_repeats(preflight.expansion)) {
      if (holds(run.spec)) names.push_back(visible_line(run.series));
    }
    if (!names.empty()) warnings.push_back(joined_names(names) + ": " + text);
  };
  warn(
      [](const RunSpec& spec) {
        return spec.data.kind == DataKind::kChess && spec.data.tokenizer.empty() &&
               !spec.model.source.empty();
      },
      "the shipped chess data uses its own tokenizer, but a pretrained model needs the tokenizer "
      "that it was trained with; give that one with data.tokenizer");
  warn(
      [](const RunSpec& spec) {
        const std::optional<int64_t> steps = steps_of(spec);
        return steps && *steps - spec.train.warmup_steps_excluded < kLeastMeasuredSteps;
      },
      fmt::format(
          "step times will be based on fewer than {} steps after the warm-up; raise train.steps",
          kLeastMeasuredSteps));
  warn(
      [&](const RunSpec& spec) {
        return !preflight.on_cluster && spec.device == DeviceKind::kCpu &&
               spec.strategy.ranks > preflight.host.cpu_cores;
      },
      fmt::format("more ranks than this host's {}; their times show how ranks share cores, not how "
                  "they scale",
                  counted(preflight.host.cpu_cores, "core")));
  return warnings;
}

// Returns a warning if the disk has too little room for checkpoints; empty: it has room.
std::string no_room_on_disk(const Preflight& preflight) {
  double bytes = 0;
  for (const PlannedRow& row : preflight.plans) {
    const auto repeats = std::ranges::count(preflight.expansion.runs, row.point, &Run::series);
    bytes += checkpoint_bytes(row) * static_cast<double>(repeats);
  }
  const std::optional<Space> space = space_of(preflight.results);
  if (!space || bytes <= space->free_bytes) return "";
  return fmt::format(
      "checkpoints will take {} GiB, and the file system of {} has {} GiB left; see "
      "checkpoint.keep, or choose another folder with --results",
      gibibytes(bytes), visible_line(preflight.results.string()), gibibytes(space->free_bytes));
}

std::string oversized(const PlannedRow& row) {
  if (!row.plan) return visible_line(row.point + " cannot be planned: " + row.problem);
  if (row.plan->fit != Fit::kDoesNotFit) return "";
  return visible_line(fmt::format("{} is predicted not to fit: it needs {} on {}; {}", row.point,
                                  excess_text(*row.plan), row.device,
                                  remedy_for(row.spec, *row.plan)));
}

// --- the command ---

constexpr size_t kUsualWidth = 80;

struct CheckArguments : TrainerQuestion {
  bool require_fit = false;
};

// Plans the first repeat of each run. Returns why there are no plans; empty: there are plans.
std::string add_plans(Preflight& preflight, const TrainerQuestion& arguments, const Host& host) {
  try {
    ExperimentPlans plans(preflight.expansion,
                          preflight.on_cluster ? std::nullopt : std::optional(host), {},
                          find_trainer(arguments.trainer), arguments.results);
    std::vector<PlannedRow> rows;
    for (const Run& run : first_repeats(preflight.expansion)) rows.push_back(plans.plan(run));
    preflight.plans = std::move(rows);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

ExitCode check(const CheckArguments& arguments) {
  const Choice& choice = arguments.choice;
  const Experiment experiment = Experiment::load(choice.file);
  const Host host = find_host(choice.gpus);
  const Expansion expansion = experiment.expand(choice.expand, host.resources);
  check_inputs_of(expansion);
  if (choice.expand.on_cluster) check_jobs_of(expansion);
  const size_t columns = stdout_columns();
  const size_t width = columns > 0 ? columns : kUsualWidth;
  const auto print = [&](const std::string& before, const std::string& text) {
    std::cout << wrapped(before, visible_line(text), before.size(), width);
  };
  print("", fmt::format("{}: {}, no mistake found", choice.file.string(),
                        counted(std::ssize(expansion.runs), "run")));
  if (!expansion.profile_reason.empty()) print("profile ", expansion.profile_reason);
  for (const std::string& sentence : expansion.overridden) print("warning: ", sentence);
  Preflight preflight{.expansion = expansion,
                      .compare = experiment.compare(),
                      .host = host.resources,
                      .on_cluster = choice.expand.on_cluster,
                      .results = arguments.results};
  const std::string why_no_plans = add_plans(preflight, arguments, host);
  std::cout << '\n';
  for (const std::string& line : preflight_table(preflight, columns)) std::cout << line << '\n';
  std::cout << '\n';
  if (!why_no_plans.empty()) {
    print("", "Memory, whether runs fit, and the size of checkpoints are not known: " +
                  why_no_plans + '.');
  }
  for (const Run& run : first_repeats(expansion)) {
    if (run.doubling) print("", run.series + ": " + run.doubling->outlook());
  }
  const std::string request = request_line(preflight);
  if (!request.empty()) print("", request);
  for (const std::string& warning : preflight_warnings(preflight)) print("warning: ", warning);
  if (choice.expand.on_cluster) check_queue(preflight, print);
  if (!preflight.on_cluster) {
    for (const std::string& warning :
         gpu_warnings(expansion, host.gpus, trainer_path(arguments.trainer))) {
      print("warning: ", warning);
    }
  }
  if (!arguments.require_fit) return ExitCode::kOk;
  return why_no_plans.empty() ? required_fit(preflight.plans) : ExitCode::kNotPlanned;
}

}  // namespace

std::vector<std::string> preflight_table(const Preflight& preflight, size_t width) {
  const std::vector<Run> runs = first_repeats(preflight.expansion);
  Table table{.columns = preflight_columns(), .blocks = std::vector<Block>(1)};
  for (size_t i = 0; i < std::min(runs.size(), kMostCheckedRuns); ++i) {
    table.add(cells_of_run(runs[i], preflight.plans.empty() ? PlannedRow() : preflight.plans[i]));
  }
  std::string common;
  for (const auto& [column, name, text_of] :
       {std::tuple(kSequences, "sequences", &sequences_text),
        std::tuple(kParameters, "parameters", &parameters_text),
        std::tuple(kTrained, "trained", &trained_text)}) {
    const std::string text = in_common(runs, text_of);
    if (text.empty() || text == "-") continue;
    for (Row& row : table.blocks[0].rows) row.cells[column] = "-";
    common += fmt::format("{}{} {}", common.empty() ? "Each run: " : ", ", text, name);
  }
  const TableLines shown = lay_out(table, {.width = width});
  std::vector<std::string> lines = shown.heading;
  lines.push_back(shown.rule);
  lines.insert(lines.end(), shown.rows.begin(), shown.rows.end());
  if (runs.size() > kMostCheckedRuns)
    lines.push_back(fmt::format("and {} more", runs.size() - kMostCheckedRuns));
  if (!common.empty()) lines.push_back(common);
  return lines;
}

std::vector<std::string> preflight_warnings(const Preflight& preflight) {
  std::vector<std::string> warnings{
      unequal(preflight, "total batches", "give all runs one batch.total",
              [](const RunSpec& spec) { return std::optional(total_batch(spec)); }),
      unequal(preflight, "numbers of steps", "give all runs the same train.steps", steps_of)};
  std::ranges::move(warnings_of_runs(preflight), std::back_inserter(warnings));
  warnings.push_back(no_room_on_disk(preflight));
  std::ranges::transform(preflight.plans, std::back_inserter(warnings), oversized);
  for (const PlannedRow& row : preflight.plans) {
    for (const std::string& note : row.notes) {
      if (std::ranges::find(warnings, note) == warnings.end()) warnings.push_back(note);
    }
  }
  std::erase(warnings, "");
  return warnings;
}

void add_require_fit_option(CLI::App& command, bool& require_fit) {
  command.add_flag("--require-fit", require_fit,
                   "Exit with 1 if a run is predicted not to fit, with 3 if that is not known");
}

ExitCode required_fit(const std::vector<PlannedRow>& rows) {
  const auto have = [&](Fit fit, const char* meaning) {
    RunNames names;
    for (const PlannedRow& row : rows) {
      const Fit known = row.plan ? row.plan->fit : Fit::kUnknown;
      if (known == fit && !row.is_suggested) names.push_back(visible_line(row.point));
    }
    if (!names.empty()) std::cerr << meaning << ": " << joined_names(names) << '\n';
    return !names.empty();
  };
  const bool is_one_too_large = have(Fit::kDoesNotFit, "does not fit");
  const bool is_one_unknown = have(Fit::kUnknown, "not known whether it fits");
  if (is_one_too_large) return ExitCode::kRunFailed;
  return is_one_unknown ? ExitCode::kNotPlanned : ExitCode::kOk;
}

CommandFunction add_check_command(CLI::App& command) {
  const auto arguments = std::make_shared<CheckArguments>();
  command.footer(R"(Examples:
  fsdp-run check experiments/lab.yaml
  fsdp-run check experiments/lab.yaml --require-fit      before a script submits
  fsdp-run check experiments/lab.yaml --profile cpu --set train.steps=20
  fsdp-run check experiments/chess.yaml --launcher slurm)");
  add_question_options(command, *arguments);
  add_require_fit_option(command, arguments->require_fit);
  return [arguments] { return check(*arguments); };
}

}  // namespace fsdp
