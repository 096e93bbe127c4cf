#include <iostream>
#include <memory>

#include "base/files/file_digest.h"
#include "base/text/utf8.h"
#include "runner/commands/commands.h"
#include "runner/commands/options.h"
#include "runner/experiment/doubling_series.h"
#include "runner/host/host.h"
#include "runner/run/planned_runs.h"

namespace fsdp {
namespace {

struct PrepareArguments {
  Choice choice;
  std::filesystem::path results = "results";
};

ExitCode prepare(const PrepareArguments& arguments) {
  const Choice& choice = arguments.choice;
  ExpandOptions expand = choice.expand;
  expand.check_gpus = false;
  const Expansion expansion =
      Experiment::load(choice.file).expand(expand, find_host(choice.gpus).resources);
  check_inputs_of(expansion);
  std::vector<RunSpec> specs;
  for (const Run& run : expansion.runs) specs.push_back(run.spec);
  const auto prepared = prepare_data_of(specs, arguments.results, remembered(file_digest));
  if (prepared.empty()) std::cout << "nothing to prepare: the runs read tokens\n";
  for (const PreparedData& data : prepared) {
    std::cout << visible_line(summary_of(data)) << '\n'
              << "  " << (data.was_made ? "made " : "is there: ")
              << visible_line(data.file.string()) << '\n';
  }
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_prepare_command(CLI::App& command) {
  const auto arguments = std::make_shared<PrepareArguments>();
  command.footer(R"(Examples:
  fsdp-run prepare experiments/lab.yaml
  fsdp-run prepare experiments/chess.yaml --results /scratch/results)");
  add_choice_options(command, arguments->choice);
  add_results_option(command, arguments->results);
  return [arguments] { return prepare(*arguments); };
}

}  // namespace fsdp
