#include "runner/slurm/step_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "contract/text/config_error.h"
#include "runner/slurm/options.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// Returns the path if an engine's list of folders can hold it.
std::string bindable(const path& folder) {
  if (folder.string().find_first_of(",:") != std::string::npos) {
    throw ConfigError("", "slurm.container",
                      fmt::format("'{}' has a comma or a colon, which lists of a container's "
                                  "folders cannot hold; use another folder",
                                  folder.string()));
  }
  return folder.string();
}

// A rank learns its number from srun through the environment.
void check_environment_is_kept(const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    if (option == "--cleanenv" || option == "-e" || option == "--containall" || option == "-C") {
      throw ConfigError("", "slurm.container.options",
                        fmt::format("'{}' takes away the environment by which srun tells a rank "
                                    "which one it is; leave it out",
                                    option));
    }
  }
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace

StepCommand step_command(const SlurmSpec& slurm, const SlurmRequest& request, const path& trainer,
                         const path& working_directory, const std::vector<path>& folders) {
  StepCommand command;
  command.srun = {
      "srun", fmt::format("--nodes={}", request.nodes), fmt::format("--ntasks={}", request.ranks()),
      fmt::format("--ntasks-per-node={}", request.ranks_per_node),
      // since Slurm 22.05 srun does not inherit it from the job
      fmt::format("--cpus-per-task={}", slurm.cpus_per_task), "--export=ALL",
      // Ranks end within seconds of each other: they meet after the last checkpoint. A rank that is
      // there a minute later waits for one that failed. It has that minute to report why.
      "--wait=60", "--kill-on-bad-exit=0"};
  if (request.gpus_per_node > 0) command.srun.push_back(gpu_option(slurm, request.gpus_per_node));
  append(command.srun, checked_options("slurm.srun_options", slurm.srun_options));

  const SlurmContainerSpec& container = slurm.container;
  const std::string program =
      (container.engine == ContainerEngine::kNone || container.trainer.empty() ? trainer
                                                                               : container.trainer)
          .string();
  if (container.engine != ContainerEngine::kNone && container.image.empty()) {
    throw ConfigError("", "slurm.container.image",
                      fmt::format("is missing; slurm.container.engine {} needs an image",
                                  name_of(container.engine)));
  }
  const std::vector<std::string> options =
      checked_options("slurm.container.options", container.options);
  switch (container.engine) {
    case ContainerEngine::kNone:
      break;
    case ContainerEngine::kApptainer:
      check_environment_is_kept(options);
      command.trainer = {"apptainer", "exec"};
      if (request.gpus_per_node > 0) command.trainer.push_back("--nv");
      command.trainer.push_back("--pwd=" + working_directory.string());
      command.trainer.push_back("--bind=" + bindable(working_directory));
      for (const path& folder : folders) command.trainer.push_back("--bind=" + bindable(folder));
      append(command.trainer, options);
      command.trainer.push_back(container.image);
      break;
    case ContainerEngine::kPyxis: {
      const auto mount = [](const path& folder) {
        return fmt::format("{0}:{0}", bindable(folder));
      };
      std::vector<std::string> mounts = {mount(working_directory)};
      std::ranges::transform(folders, std::back_inserter(mounts), mount);
      append(command.srun, {"--container-image=" + container.image,
                            fmt::format("--container-mounts={}", fmt::join(mounts, ",")),
                            "--container-workdir=" + working_directory.string()});
      append(command.srun, options);
      break;
    }
  }
  command.trainer.push_back(program);
  return command;
}

}  // namespace fsdp
