#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runner/commands.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/yaml_value.h"

namespace {

using namespace fsdp;

constexpr auto kFormats = enum_names(Format{});
constexpr std::array kCommands{"run", "check", "schema", "report"};

constexpr const char* kExamples = R"(Examples:
  fsdp-run experiments/lab.yaml            run what has no result, print the table
  fsdp-run experiments/lab.yaml --only 4xFSDP --rerun
  fsdp-run experiments/lab.yaml --set train.steps=20 --results /tmp/try
  fsdp-run experiments/lab.yaml --dry-run  what would run, every key spelled out
  fsdp-run report experiments/lab.yaml --format markdown
  fsdp-run run check                       a file named like a command

Exit status: 0 all runs finished or did not fit, 1 some run failed, 2 bad
configuration or environment, 130 interrupted.)";

// `fsdp-run --help` shows the run's options, because its word may be left out.
class HelpFormatter : public CLI::Formatter {
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app->get_parent() != nullptr) return Formatter::make_usage(app, name);
    return "Usage: fsdp-run FILE [OPTIONS]\n       fsdp-run COMMAND ...\n";
  }
};

constexpr double kLongestTimeLimitSeconds = 10'000.0 * 3600;
constexpr const char* kRunGroup = "Options of a run";

std::vector<const CLI::Option*> options_in_group(const CLI::App& run) {
  return run.get_options([](const CLI::Option* option) {
    return option->get_group() == kRunGroup && !option->get_positional();
  });
}

// "45", "90s", "30m", "2h" to seconds.
CLI::Validator time_limit_units() {
  return CLI::AsNumberWithUnit(
      std::map<std::string, double>{{"s", 1.0}, {"m", 60.0}, {"h", 3600.0}},
      CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME");
}

void add_choice_options(CLI::App& command, RunOptions& options) {
  command.add_option("FILE", options.file, "The experiment, a YAML file")
      ->required()
      ->option_text(" ");
  command.add_option("--set", options.expand.set, "Override a key of every run; may be repeated")
      ->allow_extra_args(false)
      ->option_text("PATH=VALUE");
  command.add_option("--only", options.expand.only, "Only this point; may be repeated")
      ->allow_extra_args(false)
      ->option_text("POINT");
  command.add_option("--profile", options.expand.profile, "A profile of the file, or auto")
      ->option_text("NAME=auto");
  command.add_option("--gpus", options.gpus, "GPUs to use: 0,1 or UUIDs (default: all visible)")
      ->option_text("LIST");
}

void add_results_option(CLI::App& command, std::filesystem::path& results) {
  command.add_option("--results", results, "Folder of results.sqlite and runs/")
      ->option_text("DIR=results");
}

// `word` stands where a command or a file is expected, and is no command.
void refuse_mistyped_command(const std::string& word) {
  const bool looks_like_a_command = word.find_first_of("-./") == std::string::npos;
  if (!looks_like_a_command || std::filesystem::exists(word)) return;
  const std::vector<std::string> commands(kCommands.begin(), kCommands.end());
  const std::string hint = suggestion(word, commands);
  if (hint.empty()) return;
  throw ConfigError(
      "", "",
      "'" + word + "' is neither a file nor a command; allowed: " + joined(commands) + hint);
}

ExitCode command_line(CLI::App& app, std::vector<std::string> arguments) {
  RunOptions run_options, check_options;
  ReportOptions report_options;
  std::string format = "table";
  bool dry_run = false;
  double time_limit_seconds = 0;

  CLI::App& run = *app.add_subcommand("run", "Run an experiment; the word may be left out");
  run.option_defaults()->group(kRunGroup);
  add_choice_options(run, run_options);
  add_results_option(run, run_options.results);
  run.add_flag("--rerun", run_options.rerun, "Run also what has a result");
  run.add_flag("--dry-run", dry_run, "Print each run's specification, do nothing");
  run.add_flag("--per-rank", run_options.per_rank, "Memory and time of each rank in the table");
  run.add_option("--max-parallel", run_options.max_parallel,
                 "Runs side by side; more than 1 disturbs timings")
      ->option_text("N=1")
      ->check(CLI::Range(1, 10'000, "from 1 to 10000"));
  CLI::Option& time_limit =
      *run.add_option("--time-limit", time_limit_seconds, "Of each run: 90s, 30m, 2h")
           ->transform(time_limit_units())
           ->check(CLI::Range(1.0, kLongestTimeLimitSeconds, "from 1s to 10000h"))
           ->option_text("TIME");
  run.add_option("--trainer", run_options.trainer)->group("");

  CLI::App& check = *app.add_subcommand("check", "Check an experiment and its input files");
  add_choice_options(check, check_options);

  CLI::App& schema = *app.add_subcommand("schema", "Document every key of an experiment");

  CLI::App& report = *app.add_subcommand("report", "Print the table of earlier runs");
  report.add_option("FILE", report_options.file, "Of this experiment (default: of all)");
  report.add_option("--format", format, "table, markdown, csv or json")
      ->check(CLI::IsMember(std::vector<std::string>(kFormats.begin(), kFormats.end())))
      ->option_text("FORMAT=table");
  report.add_flag("--per-rank", report_options.per_rank, "Memory and time of each rank");
  add_results_option(report, report_options.results);

  app.require_subcommand(1);
  app.footer(HelpFormatter().make_group(kRunGroup, false, options_in_group(run)) + '\n' +
             kExamples);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  app.parse(std::move(arguments));
  if (check) return check_command(check_options);
  if (schema) return schema_command();
  if (report) {
    report_options.format = *enum_from_name<Format>(format);
    return report_command(report_options);
  }
  if (time_limit) run_options.time_limit = std::chrono::seconds(std::lround(time_limit_seconds));
  return dry_run ? dry_run_command(run_options) : run_command(run_options);
}

}  // namespace

int main(int argument_count, char** argument_values) {
  std::vector<std::string> arguments(argument_values + 1, argument_values + argument_count);
  const bool asks_for_help = arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h";
  if (arguments.empty()) arguments.push_back("--help");
  CLI::App app{"Runs an experiment's points one after another and compares them.", "fsdp-run"};
  app.formatter(std::make_shared<HelpFormatter>());
  try {
    if (!asks_for_help &&
        std::find(kCommands.begin(), kCommands.end(), arguments[0]) == kCommands.end()) {
      refuse_mistyped_command(arguments[0]);
      arguments.insert(arguments.begin(), "run");
    }
    return static_cast<int>(command_line(app, std::move(arguments)));
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::cerr << "fsdp-run: " << error.what() << "; see fsdp-run --help\n";
    return static_cast<int>(ExitCode::kBadConfiguration);
  } catch (const std::exception& error) {
    std::cerr << "fsdp-run: " << error.what() << '\n';
    return static_cast<int>(ExitCode::kBadConfiguration);
  }
}
