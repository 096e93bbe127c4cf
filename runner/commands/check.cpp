#include <iostream>
#include <memory>

#include "contract/inputs/file_digest.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/utf8.h"
#include "runner/commands/commands.h"
#include "runner/commands/options.h"
#include "runner/experiment/doubling_series.h"
#include "runner/host/host.h"
#include "runner/sweep/planned_runs.h"

namespace fsdp {
namespace {

ExitCode check(const Choice& choice) {
  const Experiment experiment = Experiment::load(choice.file);
  Expansion expansion = experiment.expand(choice.expand, find_host(choice.gpus).resources);
  check_inputs_of(expansion);
  if (choice.expand.on_cluster) check_jobs_of(expansion);
  const std::vector<Store::PlannedRun> planned =
      planned_runs(experiment, expansion.runs, remembered(file_digest));
  std::cout << visible_line(choice.file.string()) << ": " << counted(std::ssize(planned), "run")
            << ", no mistake found\n";
  if (!expansion.profile_reason.empty())
    std::cout << "profile " << expansion.profile_reason << '\n';
  for (const Run& run : expansion.runs) {
    if (run.doubling) {
      std::cout << visible_line(run.point + ": " + run.doubling->outlook()) << '\n';
    }
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_check_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("check", "Check an experiment and its input files");
  const auto choice = std::make_shared<Choice>();
  command.footer(R"(Examples:
  fsdp-run check experiments/lab.yaml
  fsdp-run check experiments/lab.yaml --profile a100x4 --set train.steps=20
  fsdp-run check experiments/chess.yaml --launcher slurm)");
  add_choice_options(command, *choice);
  return [choice] { return check(*choice); };
}

}  // namespace fsdp
