#pragma once

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/config_error.h"
#include "contract/spec/yaml_value.h"
#include "runner/commands/commands.h"
#include "runner/experiment/experiment.h"
#include "runner/host/host.h"
#include "runner/store/merge.h"
#include "runner/store/store.h"

// Options that several commands share.
namespace fsdp {

// The user's choice of runs of an experiment, and of GPUs for them.
struct Choice {
  std::filesystem::path file;
  ExpandOptions expand;
  std::optional<std::string> gpus;
};

void add_choice_options(CLI::App& command, Choice& choice);
void add_results_option(CLI::App& command, std::filesystem::path& results);
// Adds the option of a command that reads any number of results folders.
void add_results_option(CLI::App& command, std::vector<std::string>& results);

// The arguments of a command that asks the trainer about an experiment.
struct TrainerQuestion {
  Choice choice;
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
};

void add_question_options(CLI::App& command, TrainerQuestion& question);

// Adds an option, with the name of its value in the help: "--results DIR=results".
template <typename T>
CLI::Option* add_option(CLI::App& command, const std::string& name_and_value, T& member,
                        const std::string& description) {
  const size_t space = name_and_value.find(' ');
  return command.add_option(name_and_value.substr(0, space), member, description)
      ->option_text(name_and_value.substr(space + 1));
}

// Adds an option that takes one of an enum's names. `member` is an enum, or an optional of one.
template <typename Member>
CLI::Option* add_named_option(CLI::App& command, const std::string& name_and_value, Member& member,
                              const std::string& description) {
  using Enum = typename std::remove_cvref_t<decltype(std::optional(member))>::value_type;
  const size_t space = name_and_value.find(' ');
  constexpr auto kNames = enum_names(Enum{});
  const auto set = [&member](const std::string& word) { member = *enum_from_name<Enum>(word); };
  return command
      .add_option_function<std::string>(name_and_value.substr(0, space), set, description)
      ->check(CLI::IsMember(std::vector<std::string>(kNames.begin(), kNames.end())))
      ->option_text(name_and_value.substr(space + 1));
}

// Accepts numbers from `least` to `most`. CLI::Range also accepts NaN. `text` says what is allowed.
CLI::Validator number_within(double least, double most, const std::string& text);

// Returns the command with which the user goes on. It lacks --rerun, which would begin anew. It has
// --launcher slurm in place of --detach and --follow.
std::string own_command();

bool has_results(const std::filesystem::path& results);
// Throws ConfigError if there are no results.
Store existing_results(const std::filesystem::path& results);
// Also reads several folders.
Store existing_results(std::span<const std::string> results);
// Returns the folder that the folders of runs are relative to.
std::filesystem::path place_of_results(std::span<const std::string> results);
// Returns results folders with their owners' names. A word is DIR or NAME=DIR. DIR may hold the
// folder `results`. Throws ConfigError if two have one name.
std::vector<MergeSource> named_results(std::span<const std::string> words);

// Returns `option` or, if that is empty, the trainer beside this program.
std::filesystem::path trainer_path(const std::filesystem::path& option);
// Returns trainer_path(option). Throws std::runtime_error if the trainer cannot be executed.
std::filesystem::path find_trainer(const std::filesystem::path& option);

// Returns why the trainer cannot use these GPUs of this host, if runs may use GPUs.
std::vector<std::string> gpu_warnings(const Expansion& expansion, const std::vector<Gpu>& gpus,
                                      const std::filesystem::path& trainer);

// The options --format and --output: the format and the place of a command's text. The first format
// is for people who read in a terminal.
template <NamedEnum Format>
struct Output {
  std::optional<Format> asked;
  std::filesystem::path file;  // empty: stdout

  // Returns the requested format, else the one of the file's extension: lab.html. Files with .txt
  // or no extension hold text. Throws ConfigError (place: --output) for another extension.
  Format format() const;
};

// Returns the name of the format that files with this extension have, "text" for .txt and for no
// extension; empty: unknown extension.
std::string_view format_of_extension(const std::filesystem::path& extension);

// Writes to the file or, if `file` is empty, to stdout.
void write_output(const std::filesystem::path& file, std::string_view text);

template <NamedEnum Format>
Format Output<Format>::format() const {
  if (asked) return *asked;
  const std::string extension = file.extension();
  const std::string_view name = format_of_extension(extension);
  if (name == "text") return Format{};
  if (const std::optional<Format> format = enum_from_name<Format>(name)) return *format;
  constexpr auto kNames = enum_names(Format{});
  throw ConfigError("--output", "",
                    file.string() + " is named like a file of " +
                        (name.empty() ? extension.substr(1) : std::string(name)) +
                        "; allowed are " + joined({kNames.begin(), kNames.end()}) +
                        ", by the name or --format");
}

template <NamedEnum Format>
void add_output_options(CLI::App& command, Output<Format>& output) {
  constexpr auto kNames = enum_names(Format{});
  add_named_option(command, "--format FORMAT=" + std::string(kNames[0]), output.asked,
                   fmt::format("{} or {}; also by the name of --output",
                               fmt::join(kNames.begin(), kNames.end() - 1, ", "), kNames.back()));
  add_option(command, "--output FILE", output.file, "Write it there");
}

// Formats help at 80 columns: names in one column, their meanings in another.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_description(const CLI::App* app) const override;
};

// Returns every option that the command's help shows; each has a long name.
std::vector<const CLI::Option*> shown_options(const CLI::App& command);

}  // namespace fsdp
