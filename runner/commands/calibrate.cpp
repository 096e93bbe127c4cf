#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <system_error>

#include "base/files/whole_file.h"
#include "base/text/utf8.h"
#include "contract/plan/calibration.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/inputs/inputs.h"
#include "runner/cluster/step_launcher.h"
#include "runner/commands/options.h"
#include "runner/run/local_launcher.h"
#include "runner/run/locks.h"
#include "runner/run/run_loop.h"

// Measures the parts of an experiment's steps, on this host's devices or those of the surrounding
// Slurm job.
namespace fsdp {
namespace {

// Runs with steps made of the same pieces. `spec` belongs to the run with the largest micro-batch.
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
    family.spec.memory_limit_gib = RunSpec().memory_limit_gib;  // a calibration holds no whole run
  }
  return families;
}

DeviceNames devices_of(const Host& host) {
  DeviceNames names = own_cores(host.name);
  for (const Gpu& gpu : host.gpus) names.insert(gpu.uuid);
  return names;
}

// Claims the devices, because two measurements on one device would disturb each other.
std::optional<DeviceClaim> claim_devices(const Host& host) {
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
    return std::nullopt;  // the claims of others cannot be read
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

struct CalibrateArguments : TrainerQuestion {
  int rounds = 3;
};

LaunchRequest request_for(const RunSpec& spec, const std::filesystem::path& folder,
                          const CalibrateArguments& arguments) {
  const std::filesystem::path file = folder / "run.yaml";
  std::filesystem::create_directories(folder);
  write_whole_file(file, to_yaml(spec));
  LaunchRequest request{
      .trainer = find_trainer(arguments.trainer),
      .arguments = {"--calibrate", std::filesystem::absolute(arguments.results).string(), "--spec",
                    file.string(), "--rounds", std::to_string(arguments.rounds)},
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

ExitCode calibrate(const CalibrateArguments& arguments) {
  const Host host = find_host(arguments.choice.gpus);
  const bool in_job = std::getenv("SLURM_JOB_ID") != nullptr;  // ranks may be on several nodes
  ExpandOptions options = arguments.choice.expand;
  options.check_gpus = !in_job;
  const Expansion expansion =
      Experiment::load(arguments.choice.file).expand(options, host.resources);
  const std::map<std::string, Family> families = families_of(expansion);
  const std::optional<DeviceClaim> claim = claim_devices(host);
  size_t failures = 0;
  for (const auto& [identity, family] : families) {
    const std::filesystem::path folder =  // of this call: others may calibrate the same elsewhere
        std::filesystem::absolute(calibration_folder(arguments.results, identity)) /
        fmt::format("{}-{}", host.name, getpid());
    const auto launcher = make_launcher(host, family.spec);
    const auto start = std::chrono::steady_clock::now();
    const AttemptEnd result = launch(*launcher, request_for(family.spec, folder, arguments));
    if (result.outcome == LaunchOutcome::kInterrupted) return ExitCode::kInterrupted;
    if (result.outcome != LaunchOutcome::kExited) {
      std::cerr
          << visible_line(fmt::format(
                 "fsdp-run: calibrating {} failed: {}; see {}", fmt::join(family.points, ", "),
                 result.reason,
                 (folder / fmt::format("rank{}.log", std::max(0, result.first_rank))).string()))
          << std::endl;
      ++failures;
      continue;
    }
    std::filesystem::remove_all(folder);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::cout << fmt::format("calibrated in {:.0f} s: {}", elapsed.count(),
                             fmt::join(family.points, ", "))
              << std::endl;
  }
  if (failures < families.size()) {
    std::cout << "`fsdp-run plan` now tells the step times of these runs." << std::endl;
  }
  return failures == 0 ? ExitCode::kOk : ExitCode::kRunFailed;
}

}  // namespace

CommandFunction add_calibrate_command(CLI::App& command) {
  const auto arguments = std::make_shared<CalibrateArguments>();
  command.footer(R"(Examples:
  fsdp-run calibrate experiments/lab.yaml
  fsdp-run calibrate experiments/lab.yaml --only 4xFSDP
  sbatch -N1 -n4 --gpus-per-node=4 --wrap "fsdp-run calibrate my.yaml")");
  add_question_options(command, *arguments);
  add_option(command, "--rounds N=3", arguments->rounds,
             "Times each piece of a step N times and keeps the medians")
      ->check(CLI::Range(1, 1000, "from 1 to 1000"));
  return [arguments] { return calibrate(*arguments); };
}

}  // namespace fsdp
