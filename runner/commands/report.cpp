#include <memory>
#include <string>
#include <vector>

#include "runner/commands/commands.h"
#include "runner/commands/options.h"
#include "runner/commands/print_report.h"
#include "runner/experiment/experiment.h"
#include "trainer/contract/config_error.h"

namespace fsdp {
namespace {

struct ReportArguments {
  std::filesystem::path file;  // empty: every experiment in the results
  std::string format = "table";
  ReportOptions options;
};

ExitCode report(ReportArguments arguments) {
  ReportOptions& options = arguments.options;
  options.format = *enum_from_name<Format>(arguments.format);
  require_results(options.results);
  Store store(options.results);
  if (arguments.file.empty()) {
    print_report(store, "", "", options);
    return ExitCode::kOk;
  }
  const Experiment experiment = Experiment::load(arguments.file);
  if (store.comparison(experiment.name()).empty()) {
    throw ConfigError(options.results.string(), "",
                      "holds no run of '" + experiment.name() +
                          "'; run it first, or name another folder with --results");
  }
  print_report(store, experiment.name(), experiment.title(), options);
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_report_command(CLI::App& app) {
  constexpr auto kFormats = enum_names(Format{});
  CLI::App& command = *app.add_subcommand("report", "Print the table of earlier runs");
  const auto arguments = std::make_shared<ReportArguments>();
  command.add_option("FILE", arguments->file, "Of this experiment (default: of all)");
  command.add_option("--format", arguments->format, "table, markdown, csv, json or html")
      ->check(CLI::IsMember(std::vector<std::string>(kFormats.begin(), kFormats.end())))
      ->option_text("FORMAT=table");
  command.add_flag("--per-rank", arguments->options.per_rank, "Memory and time of each rank");
  add_results_option(command, arguments->options.results);
  return [arguments] { return report(*arguments); };
}

}  // namespace fsdp
