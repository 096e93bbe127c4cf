#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/store/store.h"

// Options that several commands have.
namespace fsdp {

// Which runs of which experiment, on which GPUs.
struct Choice {
  std::filesystem::path file;
  ExpandOptions expand;
  std::optional<std::string> gpus;
};

void add_choice_options(CLI::App& command, Choice& choice);
void add_results_option(CLI::App& command, std::filesystem::path& results);

// An option, with what the help calls its value: "--results DIR=results".
template <typename T>
CLI::Option* add_option(CLI::App& command, const std::string& name_and_value, T& member,
                        const std::string& description) {
  const size_t space = name_and_value.find(' ');
  return command.add_option(name_and_value.substr(0, space), member, description)
      ->option_text(name_and_value.substr(space + 1));
}

// An option whose value is one of an enum's names.
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
// Throws ConfigError when there are none.
Store existing_results(const std::filesystem::path& results);

// `option`, or, where it is empty, the trainer beside this program.
std::filesystem::path trainer_path(const std::filesystem::path& option);
// The same. Throws std::runtime_error when it cannot be executed.
std::filesystem::path find_trainer(const std::filesystem::path& option);

}  // namespace fsdp
