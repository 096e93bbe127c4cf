#include "runner/commands/options.h"

#include <unistd.h>

#include <stdexcept>

#include "contract/text/config_error.h"

namespace fsdp {

void add_choice_options(CLI::App& command, Choice& choice) {
  command.add_option("FILE", choice.file, "The experiment, a YAML file")
      ->required()
      ->option_text(" ");
  command.add_option("--set", choice.expand.set, "Override a key of every run; may be repeated")
      ->allow_extra_args(false)
      ->option_text("PATH=VALUE");
  command.add_option("--only", choice.expand.only, "Only this point; may be repeated")
      ->allow_extra_args(false)
      ->option_text("POINT");
  command.add_option("--profile", choice.expand.profile, "A profile of the file, or auto")
      ->option_text("NAME=auto");
  command.add_option("--gpus", choice.gpus, "GPUs to use: 0,1 or UUIDs (default: all visible)")
      ->option_text("LIST");
  constexpr auto kLaunchers = enum_names(LauncherKind{});
  command
      .add_option_function<std::string>(
          "--launcher",
          [&choice](const std::string& name) {
            choice.launcher = enum_from_name<LauncherKind>(name).value();
            choice.expand.on_cluster = choice.launcher == LauncherKind::kSlurm;
          },
          "local: on this host; slurm: as jobs")
      ->check(CLI::IsMember(std::vector<std::string>(kLaunchers.begin(), kLaunchers.end())))
      ->option_text("KIND=local");
}

void add_results_option(CLI::App& command, std::filesystem::path& results) {
  command.add_option("--results", results, "Folder of results.sqlite and runs/")
      ->option_text("DIR=results");
}

bool has_results(const std::filesystem::path& results) {
  std::error_code not_there;
  return std::filesystem::exists(results / "results.sqlite", not_there);
}

std::filesystem::path find_trainer(const std::filesystem::path& option) {
  const std::filesystem::path trainer =
      option.empty() ? std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fsdp-train"
                     : std::filesystem::absolute(option);
  if (access(trainer.c_str(), X_OK) != 0) {
    throw std::runtime_error("the trainer " + trainer.string() +
                             " is not there or cannot be executed; build it (target fsdp-train)");
  }
  return trainer;
}

void require_results(const std::filesystem::path& results) {
  if (has_results(results)) return;
  throw ConfigError("--results", "",
                    "there is no results.sqlite in " + results.string() +
                        "; run an experiment first, or name another folder");
}

}  // namespace fsdp
