#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
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

// Adds an option, with the name of its value in the help: "--results DIR=results".
template <typename T>
CLI::Option* add_option(CLI::App& command, const std::string& name_and_value, T& member,
                        const std::string& description) {
  const size_t space = name_and_value.find(' ');
  return command.add_option(name_and_value.substr(0, space), member, description)
      ->option_text(name_and_value.substr(space + 1));
}

// Adds an option that takes one of an enum's names.
template <NamedEnum T>
CLI::Option* add_named_option(CLI::App& command, const std::string& name_and_value, T& member,
                              const std::string& description) {
  const size_t space = name_and_value.find(' ');
  constexpr auto kNames = enum_names(T{});
  const auto set = [&member](const std::string& word) { member = *enum_from_name<T>(word); };
  return command
      .add_option_function<std::string>(name_and_value.substr(0, space), set, description)
      ->check(CLI::IsMember(std::vector<std::string>(kNames.begin(), kNames.end())))
      ->option_text(name_and_value.substr(space + 1));
}

bool has_results(const std::filesystem::path& results);
// Throws ConfigError if there are no results.
Store existing_results(const std::filesystem::path& results);

// Returns `option` or, if that is empty, the trainer beside this program.
std::filesystem::path trainer_path(const std::filesystem::path& option);
// Returns the same path. Throws std::runtime_error if the trainer cannot be executed.
std::filesystem::path find_trainer(const std::filesystem::path& option);

}  // namespace fsdp
