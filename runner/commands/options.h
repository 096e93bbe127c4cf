#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include "runner/experiment/experiment.h"

// Options that several commands have.
namespace fsdp {

enum class LauncherKind { kLocal, kSlurm };

constexpr auto enum_names(LauncherKind) { return std::array{"local"sv, "slurm"sv}; }

// Which runs of which experiment, on which GPUs.
struct Choice {
  std::filesystem::path file;
  ExpandOptions expand;
  std::optional<std::string> gpus;
  LauncherKind launcher = LauncherKind::kLocal;
};

void add_choice_options(CLI::App& command, Choice& choice);
void add_results_option(CLI::App& command, std::filesystem::path& results);

bool has_results(const std::filesystem::path& results);
// Throws ConfigError when there are none.
void require_results(const std::filesystem::path& results);

// `option`, or, where it is empty, the trainer beside this program. Throws std::runtime_error when
// it cannot be executed.
std::filesystem::path find_trainer(const std::filesystem::path& option);

}  // namespace fsdp
