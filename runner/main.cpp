// Parses the command line of fsdp-run and turns errors into messages and exit status.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/system/log.h"
#include "base/system/processor.h"
#include "base/system/standard_streams.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"
#include "runner/commands/commands.h"
#include "runner/commands/console.h"
#include "runner/commands/options.h"
#include "runner/experiment/experiment_file.h"
#include "runner/host/provenance.h"
#include "runner/store/results_unavailable.h"

namespace {

using namespace fsdp;

constexpr const char* kExamples = R"(Examples:
  fsdp-run experiments/lab.yaml            what has no result, then the table
  fsdp-run experiments/lab.yaml --only 4xFSDP --rerun
  fsdp-run experiments/lab.yaml --set train.steps=20 --results /tmp/try
  fsdp-run experiments/lab.yaml --dry-run  what would run, with every key
  fsdp-run report experiments/lab.yaml --format markdown
  fsdp-run run check                       a file named like a command

Exit status: 0 all runs finished or did not fit, 1 a run failed, or something
around it (disk, rights, Slurm), 2 bad configuration, 130 interrupted.)";

std::vector<const CLI::Option*> options_in_group(const CLI::App& run) {
  return run.get_options([](const CLI::Option* option) {
    return option->get_group() == kRunGroup && !option->get_positional();
  });
}

// Throws ConfigError if `word`, which is no command, looks like a mistyped command or file name.
void refuse_mistyped_command(const std::string& word) {
  const bool looks_like_a_command = word.find_first_of("-./") == std::string::npos;
  if (!looks_like_a_command || std::filesystem::exists(word)) return;
  std::vector<std::string> commands;
  for (const Command& command : kCommands) {
    if (!command.description.empty()) commands.emplace_back(command.name);
  }
  const std::string file = experiment_meant(word);
  const std::string hint =
      file.empty() ? suggestion(word, commands) : fmt::format("; did you mean '{}'?", file);
  if (hint.empty()) return;
  throw ConfigError("", "",
                    fmt::format("'{}' is neither a file nor a command; allowed: {}{}", word,
                                joined(commands), hint));
}

// Throws ConfigError with the option nearest to the first option that the chosen command does not
// know. Throws `error` if there is no such option.
[[noreturn]] void refuse_unknown_words(const CLI::App& app, const CLI::ExtrasError& error) {
  for (const CLI::App* command : app.get_subcommands()) {
    std::vector<std::string> options;
    for (const CLI::Option* option : shown_options(*command)) {
      options.push_back("--" + option->get_lnames().front());
    }
    for (const std::string& word : command->remaining()) {
      if (!word.starts_with('-')) continue;
      const std::string option = word.substr(0, word.find('='));
      throw ConfigError(
          "", "",
          fmt::format("'{0}' is not an option of fsdp-run {1}{2}; see fsdp-run {1} --help", option,
                      command->get_name(), suggestion(option, options)));
    }
  }
  throw error;
}

// Shortens the message, because an error may quote text of any length.
std::string message_of(const std::exception& error) {
  constexpr size_t kMostBytes = 8 << 10;
  return visible_line(shortened(error.what(), kMostBytes));
}

ExitCode command_line(CLI::App& app, std::vector<std::string> arguments) {
  std::vector<CommandFunction> functions;
  for (const Command& command : kCommands) functions.push_back(command.add_to(app));
  app.require_subcommand(1);
  app.footer(
      HelpFormatter().make_group(kRunGroup, false, options_in_group(*app.get_subcommand("run"))) +
      '\n' + kExamples);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ExtrasError& error) {
    refuse_unknown_words(app, error);
  }
  size_t chosen = 0;
  while (!app.got_subcommand(std::string(kCommands[chosen].name))) ++chosen;
  try {
    return functions[chosen]();
  } catch (const IndexDamaged&) {
    return functions[chosen]();  // makes the index anew
  }
}

// Executes the command line. Reports errors on stderr. Returns the exit status.
int exit_status(std::vector<std::string> arguments) {
  const SafeStreams safe_streams;
  const bool asks_for_help = arguments.empty() || arguments[0] == "--help" ||
                             arguments[0] == "-h" || arguments[0] == "--version";
  if (arguments.empty()) arguments.push_back("--help");
  std::string command = "fsdp-run";
  CLI::App app{"Runs an experiment's points one after another and compares them.", "fsdp-run"};
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_help_ptr()->description("Print this help");
  app.set_version_flag("--version", "fsdp-run " + std::string(runner_version()),
                       "Print the version");
  try {
    if (!asks_for_help &&
        std::ranges::find(kCommands, arguments[0], &Command::name) == kCommands.end()) {
      refuse_mistyped_command(arguments[0]);
      arguments.insert(arguments.begin(), "run");
    } else if (!asks_for_help) {
      command += ' ' + arguments[0];
    }
    return static_cast<int>(command_line(app, std::move(arguments)));
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    std::cerr << "fsdp-run: " << message_of(error) << "; see " << command << " --help\n";
    return static_cast<int>(ExitCode::kBadConfiguration);
  } catch (const ConfigError& error) {
    std::cerr << "fsdp-run: " << message_of(error) << '\n' << source_excerpt(error.place());
    for (const ConfigError& next : error.more()) {
      std::cerr << "fsdp-run: " << message_of(next) << '\n' << source_excerpt(next.place());
    }
    return static_cast<int>(ExitCode::kBadConfiguration);
  } catch (const std::logic_error& error) {
    const std::string log_place = log_file().empty() ? "" : " and " + log_file().string();
    log(LogLevel::kError, "end", error.what());
    std::cerr << "fsdp-run: this is a defect of fsdp-run, not your mistake: " << message_of(error)
              << "; please report it with the command" << visible_line(log_place) << '\n';
    return static_cast<int>(ExitCode::kRunFailed);
  } catch (const std::bad_alloc& error) {
    log(LogLevel::kError, "end", error.what());
    std::cerr
        << "fsdp-run: memory ran out; see the memory limits of this process (`ulimit -v`) and "
           "of its job or container\n";
    return static_cast<int>(ExitCode::kRunFailed);
  } catch (const std::exception& error) {
    log(LogLevel::kError, "end", error.what());
    std::cerr << "fsdp-run: " << message_of(error) << '\n';
    return static_cast<int>(ExitCode::kRunFailed);
  }
}

}  // namespace

int main(int argument_count, char** argument_values) {
  open_standard_streams();
  // Trainers inherit the variable. Without it, each would have to execute itself again.
  if (char* const spin_count = missing_spin_count(environ)) putenv(spin_count);
  // A write beyond the limit on file sizes then fails with an error, which says what to do.
  std::signal(SIGXFSZ, SIG_IGN);
  StandardOutput output;
  const int status = exit_status({argument_values + 1, argument_values + argument_count});
  const std::optional<std::error_code> problem = output.finish();
  if (!problem) return status;
  std::cerr << "fsdp-run: standard output cannot be written: " << problem->message() << '\n';
  return status == 0 ? static_cast<int>(ExitCode::kRunFailed) : status;
}
