#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "base/files/file_digest.h"
#include "base/text/utf8.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/commands/commands.h"
#include "runner/commands/preflight.h"
#include "runner/commands/print_report.h"
#include "runner/commands/run_arguments.h"
#include "runner/experiment/doubling_series.h"
#include "runner/host/doctor.h"
#include "runner/host/host.h"
#include "runner/plan/experiment_plans.h"
#include "runner/run/planned_runs.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr size_t kUsualWidth = 80;

struct CheckArguments {
  Choice choice;
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
};

// Expands the experiment and checks its runs' input files.
Expansion checked(const Experiment& experiment, const Choice& choice, const Host& host) {
  Expansion expansion = experiment.expand(choice.expand, host.resources);
  check_inputs_of(expansion);
  if (choice.expand.on_cluster) check_jobs_of(expansion);
  return expansion;
}

// Prints why the trainer that is built cannot use this host's GPUs, if runs may use GPUs here.
void print_misfits(const Preflight& preflight, const std::vector<Gpu>& gpus,
                   const std::filesystem::path& trainer, size_t width) {
  const auto may_use_gpus = [](const Run& run) { return run.spec.device != DeviceKind::kCpu; };
  if (preflight.on_cluster || std::ranges::none_of(preflight.expansion.runs, may_use_gpus)) return;
  const auto build = gpus.empty() ? std::nullopt : build_of(trainer);
  if (!build) return;
  for (const Misfit& misfit : misfits(*build, nvidia_of_host().driver, gpus)) {
    std::cout << wrapped("warning: ", misfit.problem + "; " + misfit.remedy, 9, width);
  }
}

// Plans the first repeat of each run. Returns why there are no plans; empty: there are.
std::string add_plans(Preflight& preflight, const CheckArguments& arguments, const Host& host) {
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
  const Expansion expansion = checked(experiment, choice, host);
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
  if (choice.expand.on_cluster) {
    const QueueCheck queue = check_queue(expansion);
    for (const std::string& line : queue.refused) print("warning: ", line);
    if (!queue.not_known.empty()) print("", queue.not_known);
  }
  print_misfits(preflight, host.gpus, trainer_path(arguments.trainer), width);
  return ExitCode::kOk;
}

}  // namespace

ExitCode dry_run(const RunArguments& options) {
  Choice choice = options.choice;
  choice.expand.check_gpus = false;
  const Experiment experiment = Experiment::load(choice.file);
  const Expansion expansion = checked(experiment, choice, find_host(choice.gpus));
  const auto planned = planned_runs(experiment, expansion.runs, remembered(file_digest));
  std::string text = "# " + counted(std::ssize(planned), "run") + '\n';
  if (!expansion.profile_reason.empty()) text += "# profile " + expansion.profile_reason + '\n';
  for (const std::string& sentence : expansion.overridden) {
    text += "# warning: " + visible_line(sentence) + '\n';
  }
  for (size_t i = 0; i < planned.size(); ++i) {
    const RunRecord& run = planned[i];
    text += "---\n# point: ";
    append_json_string(text, run.point);  // a name may hold line feeds
    text += fmt::format("\n# hash: {}\n# folder: {}\n", run.hash,
                        visible_line((options.results / run.folder).string()));
    if (const auto& doubling = expansion.runs[i].doubling) {
      text += "# " + visible_line(doubling->outlook()) + '\n';
    }
    text += to_yaml(run.spec);
  }
  std::cout << text;
  return ExitCode::kOk;
}

CommandFunction add_check_command(CLI::App& command) {
  const auto arguments = std::make_shared<CheckArguments>();
  command.footer(R"(Examples:
  fsdp-run check experiments/lab.yaml
  fsdp-run check experiments/lab.yaml --profile a100x4 --set train.steps=20
  fsdp-run check experiments/chess.yaml --launcher slurm)");
  add_choice_options(command, arguments->choice);
  add_results_option(command, arguments->results);
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return check(*arguments); };
}

}  // namespace fsdp
