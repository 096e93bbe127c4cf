#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "contract/files/file_digest.h"
#include "contract/record/log.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/text/utf8.h"
#include "runner/commands/commands.h"
#include "runner/commands/dry_run.h"
#include "runner/commands/preflight.h"
#include "runner/commands/print_report.h"
#include "runner/commands/queue_check.h"
#include "runner/experiment/doubling_series.h"
#include "runner/host/device_fit.h"
#include "runner/host/host.h"
#include "runner/plan/experiment_plans.h"
#include "runner/report/terminal_text.h"
#include "runner/run/planned_runs.h"

namespace fsdp {
namespace {

constexpr size_t kUsualWidth = 80;

struct CheckArguments {
  Choice choice;
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
};

// Checked runs of an experiment; the elements of both lists correspond.
struct CheckedRuns {
  Expansion expansion;
  std::vector<RunRecord> planned;
};

CheckedRuns checked(const Choice& choice) {
  const Experiment experiment = Experiment::load(choice.file);
  Expansion expansion = experiment.expand(choice.expand, find_host(choice.gpus).resources);
  check_inputs_of(expansion);
  if (choice.expand.on_cluster) check_jobs_of(expansion);
  auto planned = planned_runs(experiment, expansion.runs, remembered(file_digest));
  return {std::move(expansion), std::move(planned)};
}

// Prints why the trainer that is built cannot use this host's GPUs, if runs may use GPUs here.
void print_misfits(const Choice& choice, const std::vector<Run>& runs,
                   const std::filesystem::path& trainer, size_t width) {
  const auto may_use_gpus = [](const Run& run) { return run.spec.device != DeviceKind::kCpu; };
  if (choice.expand.on_cluster || std::ranges::none_of(runs, may_use_gpus)) return;
  const std::vector<Gpu> gpus = find_host(choice.gpus).gpus;
  const auto build = gpus.empty() ? std::nullopt : build_of(trainer);
  if (!build) return;
  for (const Misfit& misfit : misfits(*build, nvidia_of_host().driver, gpus)) {
    std::cout << wrapped("warning: ", misfit.problem + "; " + misfit.remedy, 9, width);
  }
}

// Returns a row per run, if a trainer that can plan is built; else none.
std::vector<PlannedRow> plans_of(const CheckArguments& arguments) {
  const Choice& choice = arguments.choice;
  const std::filesystem::path trainer = trainer_path(arguments.trainer);
  if (access(trainer.c_str(), X_OK) != 0) return {};
  std::vector<PlannedRow> rows;
  try {
    ExperimentPlans plans(choice.file, choice.expand, find_host(choice.gpus), {}, trainer,
                          arguments.results);
    for (const Run& run : plans.runs()) rows.push_back(plans.plan(run));
  } catch (const std::runtime_error& error) {
    log(LogLevel::kWarning, "check", error.what());  // a trainer that plans nothing
    return {};
  }
  return rows;
}

ExitCode check(const CheckArguments& arguments) {
  const Choice& choice = arguments.choice;
  const Experiment experiment = Experiment::load(choice.file);
  const auto [expansion, planned] = checked(choice);
  const size_t columns = stdout_columns();
  const size_t width = columns > 0 ? columns : kUsualWidth;
  const auto print = [&](const std::string& before, const std::string& text) {
    std::cout << wrapped(before, visible_line(text), before.size(), width);
  };
  print("",
        choice.file.string() + ": " + counted(std::ssize(planned), "run") + ", no mistake found");
  if (!expansion.profile_reason.empty()) print("profile ", expansion.profile_reason);
  for (const std::string& sentence : expansion.overridden) print("warning: ", sentence);
  const Host host = find_host(choice.gpus);
  const Preflight preflight{.expansion = expansion,
                            .compare = experiment.compare(),
                            .host = host.resources,
                            .on_cluster = choice.expand.on_cluster,
                            .results = arguments.results,
                            .plans = plans_of(arguments)};
  std::cout << '\n';
  for (const std::string& line : preflight_table(preflight, columns)) std::cout << line << '\n';
  std::cout << '\n';
  for (const Run& run : expansion.runs) {
    if (run.doubling && run.repeat == 0) print("", run.series + ": " + run.doubling->outlook());
  }
  const std::string request = request_line(preflight);
  if (!request.empty()) print("", request);
  for (const std::string& warning : preflight_warnings(preflight)) print("warning: ", warning);
  if (choice.expand.on_cluster) {
    const QueueCheck queue = check_queue(expansion);
    for (const std::string& line : queue.refused) print("warning: ", line);
    if (!queue.not_known.empty()) print("", queue.not_known);
  }
  print_misfits(choice, expansion.runs, trainer_path(arguments.trainer), width);
  return ExitCode::kOk;
}

}  // namespace

ExitCode dry_run(const RunArguments& options) {
  Choice choice = options.choice;
  choice.expand.check_gpus = false;
  const auto [expansion, planned] = checked(choice);
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
