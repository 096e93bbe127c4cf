#include "runner/cluster/step_launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <iterator>
#include <optional>
#include <regex>
#include <span>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/system/program.h"
#include "base/text/config_error.h"
#include "contract/record/host_memory.h"
#include "runner/cluster/complaints.h"
#include "runner/cluster/request.h"
#include "runner/cluster/slurm.h"
#include "runner/run/local_launcher.h"

namespace fsdp {
namespace {

constexpr std::chrono::seconds kTimeToEndStep{60};
constexpr std::chrono::seconds kTimeToAnswer{20};
// Both are equally long.
constexpr std::string_view kErrorOfSrun = "srun: error: ";
constexpr std::string_view kFatalErrorOfSrun = "srun: fatal: ";

// The job's output, if it is a file. Slurm's daemon writes to it, too.
constexpr const char* kJobOutput = "/proc/self/fd/2";

// Returns 0 if it is no file.
uintmax_t bytes_of(const std::filesystem::path& output) {
  std::error_code error;
  return std::filesystem::is_regular_file(output, error) ? std::filesystem::file_size(output, error)
                                                         : 0;
}

// The file for srun's own messages, beside the ranks' logs.
std::filesystem::path srun_log(const LaunchRequest& request) {
  return request.rank_logs.front().parent_path() / "srun.log";
}

// The step's name, unique within the job: "4xDDP-1a2b3c4d/attempt-2".
std::string step_name(const LaunchRequest& request) {
  const std::filesystem::path attempt = request.rank_logs.front().parent_path();
  return attempt.parent_path().filename() / attempt.filename();
}

// True if the steps fit beside each other when nodes are filled in the steps' order.
bool fit(const SlurmRequest& available, std::span<const SlurmRequest> steps) {
  struct Node {
    int64_t ranks, gpus;
  };
  std::vector<Node> free(static_cast<size_t>(available.nodes),
                         {available.ranks_per_node, available.gpus_per_node});
  for (const SlurmRequest& step : steps) {
    int64_t missing = step.nodes;
    for (Node& node : free) {
      if (missing == 0 || node.ranks < step.ranks_per_node || node.gpus < step.gpus_per_node) {
        continue;
      }
      node.ranks -= step.ranks_per_node;
      node.gpus -= step.gpus_per_node;
      --missing;
    }
    if (missing > 0) return false;
  }
  return true;
}

// Empty if the program does not answer.
std::string answer_of(const std::vector<std::string>& words) {
  try {
    const ProgramResult result = run_program(words, program_environment(), kTimeToAnswer);
    return result.timed_out ? "" : result.output;
  } catch (const std::system_error&) {
    return "";
  }
}

// The ids of the job's steps with this name. nullopt if Slurm did not say.
std::optional<std::vector<std::string>> steps_named(const std::string& job,
                                                    const std::string& name) {
  const std::string answer =
      answer_of({"squeue", "--steps", "--noheader", "--jobs=" + job, "--format=%i %j"});
  if (answer.empty()) return std::nullopt;  // a job has at least the step of its script
  std::vector<std::string> steps;
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space != std::string::npos && line.substr(space + 1) == name) {
      steps.push_back(line.substr(0, space));
    }
  }
  return steps;
}

// Kills the step that a killed srun left behind. Returns false if Slurm does not confirm the end.
bool end_step(const std::string& job, const std::string& name) {
  const auto deadline = std::chrono::steady_clock::now() + kTimeToEndStep;
  while (std::chrono::steady_clock::now() < deadline) {
    const auto steps = steps_named(job, name);
    if (steps && steps->empty()) return true;
    for (const std::string& step : steps.value_or(std::vector<std::string>())) {
      answer_of({"scancel", step});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return false;
}

bool is_error_of_srun(std::string_view line) {
  return line.starts_with(kErrorOfSrun) || line.starts_with(kFatalErrorOfSrun);
}

bool has_killed_rank(const ProcessEnd& srun) {
  constexpr int kStatus = 128 + SIGKILL;
  return WIFEXITED(srun.wait_status) && WEXITSTATUS(srun.wait_status) == kStatus;
}

// True if one of `assignments`, NAME=value, sets the variable.
bool is_named(const std::vector<std::string>& assignments, const std::string& name) {
  return std::ranges::any_of(assignments, [&](const std::string& assignment) {
    return assignment.starts_with(name + '=');
  });
}

// The rank that srun's error names. -1 if it names none or several.
int rank_in(const std::string& error) {
  static const std::regex kTask(R"(^[^ ]+: task ([0-9]+): )");
  std::smatch match;
  return std::regex_search(error, match, kTask) ? std::stoi(match[1]) : -1;
}

}  // namespace

StepLauncher::StepLauncher(Allocation allocation, Patience patience)
    : allocation_(std::move(allocation)), patience_(patience) {}

bool StepLauncher::has_room(size_t ranks, bool uses_gpus) const {
  if (running_.empty()) return true;
  const auto most = static_cast<size_t>(std::max<int64_t>(allocation_.slurm.max_parallel, 1));
  if (launches_.are_stopping() || running_.size() >= most) return false;
  std::vector<SlurmRequest> steps;
  for (const Step& step : running_) steps.push_back(step.size);
  try {
    steps.push_back(slurm_request(allocation_.slurm, static_cast<int64_t>(ranks), uses_gpus));
  } catch (const ConfigError&) {
    return false;  // start() reports it when this run is alone
  }
  return fit(allocation_.size, steps);
}

void StepLauncher::start(const LaunchRequest& request) {
  const auto ranks = static_cast<int64_t>(request.rank_logs.size());
  const Step step{.id = request.id,
                  .name = step_name(request),
                  .size = slurm_request(allocation_.slurm, ranks, request.uses_gpus),
                  .job_output_begin = bytes_of(kJobOutput)};
  const SlurmRequest& size = allocation_.size;
  if (!fit(size, std::array{step.size})) {
    throw ConfigError("", "strategy.ranks",
                      fmt::format("{} ranks need {} nodes with {} ranks each, but the job has {} "
                                  "with {}",
                                  ranks, step.size.nodes, step.size.ranks_per_node, size.nodes,
                                  size.ranks_per_node));
  }
  launches_.start(request, plan(request, step));
  running_.push_back(step);
}

SupervisorPlan StepLauncher::plan(const LaunchRequest& request, const Step& step) const {
  const std::filesystem::path attempt = request.rank_logs.front().parent_path();
  StepCommand command = step_command(allocation_.slurm, step.size, request.trainer,
                                     allocation_.working_directory, allocation_.folders);
  SupervisorPlan plan{.program = "/usr/bin/env",  // env finds srun
                      .arguments = std::move(command.srun),
                      .ranks = {{.environment = {}, .log = srun_log(request)}},
                      .time_limit = request.time_limit,
                      .time_to_stop = request.time_to_stop,
                      .patience = patience_,
                      .stop_signal = SIGUSR1};
  const auto append = [&](const std::vector<std::string>& words) {
    plan.arguments.insert(plan.arguments.end(), words.begin(), words.end());
  };
  append({"--exact", "--mem=0", "--job-name=" + step.name,
          "--output=" + file_name_pattern(attempt.string()) + "/rank%t.log"});
  append(command.trainer);
  append(request.arguments);
  std::vector<std::string>& environment = plan.ranks.front().environment;
  environment = request.environment;
  for (const auto& [name, value] : own_environment()) {
    if (is_named(request.environment, name)) continue;
    if (is_of_a_launcher(name) && !is_named(allocation_.slurm.environment, name)) continue;
    environment.push_back(name + '=' + value);
  }
  return plan;
}

std::vector<AttemptEnd> StepLauncher::wait(std::chrono::milliseconds timeout) {
  std::vector<AttemptEnd> ends;
  for (const auto& [request, srun] : launches_.wait(timeout)) {
    const auto step = std::ranges::find(running_, request.id, &Step::id);
    ends.push_back(end_of(*step, request, srun));
    running_.erase(step);
  }
  return ends;
}

// If JobAcctGather (OverMemoryKill) kills a step, only the job's output says why. An output file
// that the user names may have lines of other jobs.
bool StepLauncher::says_limit_reached(const Step& step, const LaunchRequest& request,
                                      const ProcessEnd& srun) const {
  if (!first_line(srun_log(request), says_out_of_memory).empty()) return true;
  const SlurmSpec& slurm = allocation_.slurm;
  const bool is_own_file = slurm.output.empty() && slurm.error.empty();
  return is_own_file && has_killed_rank(srun) && bytes_of(kJobOutput) > step.job_output_begin &&
         !first_line(kJobOutput, says_out_of_memory, step.job_output_begin).empty();
}

// The supervisor saw srun end, not the ranks. The status of srun is the largest status of its
// ranks. Status 130 means that all unsuccessful ranks were asked to stop, as Slurm does at the
// job's end.
AttemptEnd StepLauncher::end_of(const Step& step, const LaunchRequest& request,
                                const ProcessEnd& srun) const {
  AttemptEnd end = attempt_end(request, srun);
  end.first_rank = -1;
  const std::filesystem::path log = srun_log(request);
  const bool failed = srun.outcome == LaunchOutcome::kFailed;
  // For a node that is set down, srun exits with status 0.
  const bool may_be_of_node = failed || srun.outcome == LaunchOutcome::kInterrupted ||
                              srun.outcome == LaunchOutcome::kExited;
  // Slurm's message does not tell the rank: if one task runs out of memory, Slurm reports it for
  // all tasks of the node.
  if (failed && says_limit_reached(step, request, srun)) {
    end.outcome = LaunchOutcome::kOutOfMemory;
    end.reason = kSlurmLimitReached;
  } else if (may_be_of_node && !first_line(log, says_node_failed).empty()) {
    end.outcome = LaunchOutcome::kNodeFailed;
    end.reason = "a node of the job failed";
  } else if (failed && !first_line(log, says_nodes_are_gone).empty()) {
    end.outcome = LaunchOutcome::kNodeFailed;
    end.reason = "the job no longer has its nodes";
  } else if (failed && ended_with(srun.wait_status, ExitCode::kInterrupted)) {
    end.outcome = LaunchOutcome::kInterrupted;
    end.reason = "asked to stop";
  } else if (failed) {
    // "srun: error: n1: task 1: Exited with exit code 7"
    std::string error = first_line(log, is_error_of_srun);
    error.erase(0, kErrorOfSrun.size());
    end.outcome = LaunchOutcome::kFailed;  // regardless of the signal that killed srun
    end.reason = describe("srun", srun.wait_status);
    if (!error.empty()) end.reason += ": " + error;
    end.first_rank = rank_in(error);
  } else if (end.outcome == LaunchOutcome::kOutOfMemory) {
    end.reason = "a rank ran out of memory";
  }
  if (srun.killed && !end_step(allocation_.job, step.name)) {
    end.reason += fmt::format("; Slurm does not say whether the step '{}' of the job {} has ended",
                              step.name, allocation_.job);
  }
  return end;
}

void StepLauncher::stop_all() { launches_.stop_all(); }

namespace {

using std::filesystem::path;

// Returns the folder as an engine binds it to the same path.
std::string mount(const path& folder) {
  if (folder.string().find_first_of(",:") != std::string::npos) {
    throw ConfigError("", "slurm.container",
                      fmt::format("'{}' has a comma or a colon, which lists of a container's "
                                  "folders cannot hold; use another folder",
                                  folder.string()));
  }
  return fmt::format("{0}:{0}", folder.string());
}

// A rank learns its number from srun through the environment.
void check_environment_is_kept(const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    if (option == "--cleanenv" || option == "-e" || option == "--containall" || option == "-C") {
      throw ConfigError(
          "", "slurm.container.options",
          fmt::format(
              "'{}' removes the environment variables that tell a rank its number; leave it out",
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
      // Ranks end within seconds of each other, because they meet after the last checkpoint. A rank
      // that still runs later waits for a failed rank. It has a minute to report the failure.
      "--wait=60", "--kill-on-bad-exit=0"};
  const auto add_value = [&](const char* name, const std::string& value) {
    if (!value.empty()) command.srun.push_back(fmt::format("{}={}", name, value));
  };
  add_value("--mpi", slurm.mpi);
  add_value("--cpu-bind", slurm.cpu_bind);
  if (request.gpus_per_node > 0) {
    command.srun.push_back(gpu_option(slurm, request.gpus_per_node));
    add_value("--gpu-bind", slurm.gpu_bind);
  }
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
  std::vector<std::string> mounts;
  if (container.engine != ContainerEngine::kNone) {
    mounts.push_back(mount(working_directory));
    std::ranges::transform(folders, std::back_inserter(mounts), mount);
  }
  // Each engine has its own words for GPUs, for the working directory and for a mount.
  const auto start_in_container = [&](std::vector<std::string> words, const char* gpus,
                                      const char* directory, const char* mounted) {
    command.trainer = std::move(words);
    if (request.gpus_per_node > 0) command.trainer.push_back(gpus);
    command.trainer.push_back(directory + working_directory.string());
    for (const std::string& folder : mounts) command.trainer.push_back(mounted + folder);
    append(command.trainer, options);
    command.trainer.push_back(container.image);
  };
  switch (container.engine) {
    case ContainerEngine::kNone:
      break;
    case ContainerEngine::kApptainer:
    case ContainerEngine::kSingularity:
      check_environment_is_kept(options);
      start_in_container({std::string(name_of(container.engine)), "exec"}, "--nv",
                         "--pwd=", "--bind=");
      break;
    case ContainerEngine::kPodman:
      // Without a cgroup of its own, a container stays in the step's cgroup, where Slurm limits its
      // memory and ends it. Ranks look at each other's processes, which needs --pid=host.
      start_in_container({"podman", "run", "--rm", "--env-host", "--network=host", "--ipc=host",
                          "--pid=host", "--cgroups=disabled"},
                         "--device=nvidia.com/gpu=all", "--workdir=", "--volume=");
      break;
    case ContainerEngine::kPyxis:
      append(command.srun, {"--container-image=" + container.image,
                            fmt::format("--container-mounts={}", fmt::join(mounts, ",")),
                            "--container-workdir=" + working_directory.string()});
      append(command.srun, options);
      break;
  }
  command.trainer.push_back(program);
  return command;
}

}  // namespace fsdp
