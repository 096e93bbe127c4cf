#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <system_error>

#include "base/text/config_error.h"
#include "contract/plan/calibration.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/inputs/inputs.h"
#include "runner/cluster/step_launcher.h"
#include "runner/commands/commands.h"
#include "runner/commands/options.h"
#include "runner/experiment/experiment.h"
#include "runner/host/gpus.h"
#include "runner/host/host.h"
#include "runner/host/whole_file.h"
#include "runner/run/local_launcher.h"
#include "runner/run/locks.h"
#include "runner/run/run_loop.h"

// Times the pieces that an experiment's runs are made of, on the available devices. These belong to
// this host, or to the job of Slurm that this process runs in.
namespace fsdp {
namespace {

struct CalibrateArguments {
  Choice choice;
  std::filesystem::path results = "results";
  std::filesystem::path trainer;  // empty: fsdp-train beside this program
};

// Runs with steps made of the same pieces. `spec` belongs to the run with most rows.
struct Family {
  RunSpec spec;
  std::vector<std::string> points;
};

std::map<std::string, Family> families_of(const Expansion& expansion) {
  std::map<std::string, Family> families;
  for (const Run& run : expansion.runs) {
    if (run.repeat != 0) continue;
    const auto [found, is_new] = families.try_emplace(
        calibration_identity(run.spec, model_config(run.spec)), Family{run.spec, {}});
    Family& family = found->second;
    family.points.push_back(run.series);
    if (run.spec.batch.size_per_rank > family.spec.batch.size_per_rank) family.spec = run.spec;
    family.spec.memory_limit_gib = RunSpec().memory_limit_gib;  // nothing of the run is kept
  }
  return families;
}

DeviceNames devices_of(const Host& host) {
  DeviceNames names = own_cores(host.name);
  for (const Gpu& gpu : host.gpus) names.insert(gpu.uuid);
  return names;
}

// Claims the devices, so that no two measurements disturb each other.
std::optional<DeviceClaim> hold_devices(const Host& host) {
  const std::string who = fmt::format("process {} on {}, fsdp-run calibrate", getpid(), host.name);
  std::string holders;
  try {
    auto claim = DeviceClaim::take(devices_of(host), who, false, holders);
    if (!claim) {
      throw ConfigError("", "calibrate",
                        holders + " measures on the same devices; calibrate when it has ended");
    }
    return claim;
  } catch (const std::system_error&) {
    return std::nullopt;  // others cannot be seen
  }
}

std::unique_ptr<Launcher> make_launcher(const Host& host, const RunSpec& spec) {
  if (const char* job = std::getenv("SLURM_JOB_ID")) {
    return std::make_unique<StepLauncher>(
        Allocation{.job = job,
                   .slurm = spec.slurm,
                   .size = slurm_request(spec),
                   .working_directory = std::filesystem::current_path()});
  }
  const bool uses_gpus = spec.device == DeviceKind::kCuda;
  const auto ranks = static_cast<size_t>(spec.strategy.ranks);
  return std::make_unique<LocalLauncher>(
      LocalSlots{.gpus = uses_gpus ? unheld_gpus(host.gpus, ranks) : host.gpus,
                 .cpu_ranks = static_cast<int>(host.resources.cpu_cores)});
}

LaunchRequest request_for(const RunSpec& spec, const std::filesystem::path& folder,
                          const CalibrateArguments& arguments) {
  const std::filesystem::path file = folder / "run.yaml";
  std::filesystem::create_directories(folder);
  write_whole_file(file, to_yaml(spec));
  LaunchRequest request{
      .trainer = find_trainer(arguments.trainer),
      .arguments = {"--calibrate", std::filesystem::absolute(arguments.results).string(), "--spec",
                    file.string()},
      .environment = spec.environment,
      .uses_gpus = spec.device == DeviceKind::kCuda};
  for (int64_t rank = 0; rank < spec.strategy.ranks; ++rank) {
    request.rank_logs.push_back(folder / fmt::format("rank{}.log", rank));
  }
  return request;
}

AttemptEnd launch(Launcher& launcher, const LaunchRequest& request) {
  StopSignals stop_signals;
  launcher.start(request);
  while (true) {
    if (stop_signals.take(std::chrono::seconds(0)) != 0) launcher.stop_all();
    const std::vector<AttemptEnd> ended = launcher.wait(std::chrono::milliseconds(200));
    if (!ended.empty()) return ended.front();
  }
}

// Expands the experiment. In a job, ranks may be on several nodes, so GPUs are not checked.
Expansion expand(const CalibrateArguments& arguments, const Host& host) {
  ExpandOptions options = arguments.choice.expand;
  options.check_gpus = std::getenv("SLURM_JOB_ID") == nullptr;
  return Experiment::load(arguments.choice.file).expand(options, host.resources);
}

ExitCode calibrate(const CalibrateArguments& arguments) {
  const Host host = find_host(arguments.choice.gpus);
  const Expansion expansion = expand(arguments, host);
  const std::map<std::string, Family> families = families_of(expansion);
  const std::optional<DeviceClaim> claim = hold_devices(host);
  for (const auto& [identity, family] : families) {
    const std::filesystem::path folder =  // of this call: others may calibrate the same elsewhere
        std::filesystem::absolute(calibration_folder(arguments.results, identity)) /
        fmt::format("{}-{}", host.name, getpid());
    const auto launcher = make_launcher(host, family.spec);
    const auto start = std::chrono::steady_clock::now();
    const AttemptEnd result = launch(*launcher, request_for(family.spec, folder, arguments));
    if (result.outcome == LaunchOutcome::kInterrupted) return ExitCode::kInterrupted;
    if (result.outcome != LaunchOutcome::kExited) {
      throw std::runtime_error(fmt::format(
          "calibrating {} failed: {}; see {}", fmt::join(family.points, ", "), result.reason,
          (folder / fmt::format("rank{}.log", std::max(0, result.first_rank))).string()));
    }
    std::filesystem::remove_all(folder);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::cout << fmt::format("calibrated in {:.0f} s: {}", elapsed.count(),
                             fmt::join(family.points, ", "))
              << std::endl;
  }
  std::cout << "`fsdp-run plan` now tells the step times of these runs." << std::endl;
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_calibrate_command(CLI::App& command) {
  const auto arguments = std::make_shared<CalibrateArguments>();
  command.footer(R"(Examples:
  fsdp-run calibrate experiments/lab.yaml
  fsdp-run calibrate experiments/lab.yaml --only 4xFSDP
  sbatch -N1 -n4 --gpus-per-node=4 --wrap "fsdp-run calibrate my.yaml")");
  add_choice_options(command, arguments->choice);
  add_results_option(command, arguments->results);
  command.add_option("--trainer", arguments->trainer)->group("");
  return [arguments] { return calibrate(*arguments); };
}

}  // namespace fsdp
