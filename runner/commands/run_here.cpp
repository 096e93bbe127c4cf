#include <unistd.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "base/system/log.h"
#include "base/system/program.h"
#include "contract/record/run_paths.h"
#include "runner/cluster/open_jobs.h"
#include "runner/commands/run.h"
#include "runner/run/local_launcher.h"
#include "runner/run/locks.h"

namespace fsdp {
namespace {

constexpr std::chrono::seconds kClaimInterval{1};

// Returns the most ranks of any run on GPUs; 0: no run uses GPUs.
int64_t gpus_needed(const std::vector<RunRecord>& runs) {
  int64_t needed = 0;
  for (const RunRecord& run : runs) {
    if (run.spec.device == DeviceKind::kCuda) needed = std::max(needed, run.spec.strategy.ranks);
  }
  return needed;
}

DeviceNames devices_of(const std::vector<RunRecord>& runs, const Host& host) {
  DeviceNames names;
  const auto is_on_cpu = [](const RunRecord& run) { return run.spec.device == DeviceKind::kCpu; };
  if (std::ranges::any_of(runs, is_on_cpu)) names = own_cores(host.name);
  if (gpus_needed(runs) == 0) return names;
  for (const Gpu& gpu : host.gpus) names.insert(gpu.uuid);
  return names;
}

// Claims the devices on this host. Waits until no other runner has any of them, unless they are
// shared. Returns false if asked to stop meanwhile.
bool take_devices(std::optional<DeviceClaim>& claim, const DeviceNames& devices,
                  const std::string& who, bool share, Progress& progress) {
  StopSignals stop_signals;
  for (std::string said;;) {
    std::string holders;
    try {
      if (auto taken = DeviceClaim::take(devices, who, share, holders)) {
        claim.emplace(std::move(*taken));
      }
    } catch (const std::system_error& error) {
      progress.warn(std::string("cannot see whether other runners use these devices: ") +
                    error.what());
      return true;
    }
    if (claim && holders.empty()) return true;
    // A warning is shown in quiet mode, too, where the program would seem to hang without it.
    const bool is_first = said.empty();
    if (std::exchange(said, holders) != holders) {
      const std::string line =
          claim ? "runs at the same time as " + holders + ": timings are disturbed"
                : "waits for " + holders +
                      ", which measures on the same devices; --share runs at the same time";
      log(LogLevel::kInfo, "devices", line);
      is_first ? progress.warn(line) : progress.say(line);
    }
    if (claim) return true;
    if (stop_signals.take(kClaimInterval) != 0) return false;
  }
}

void leave_out_runs_in_jobs(std::vector<RunRecord>& runs, const Store& store, Progress& progress) {
  if (runs.empty()) return;
  const std::set<int64_t> in_jobs = runs_in_jobs(store);
  const std::set<std::string> families = families_in_jobs(store, runs.front().experiment);
  const size_t left_out = std::erase_if(runs, [&](const RunRecord& run) {
    return in_jobs.contains(run.id) || families.contains(run.family);
  });
  if (left_out == 0) return;
  progress.say(counted(static_cast<int64_t>(left_out), "run") +
               " left to the Slurm jobs that have them; --launcher slurm follows the jobs");
}

}  // namespace

ExitCode run_here(std::vector<RunRecord> runs, RunPlanner& planner, const RunListeners& listeners,
                  FileDigests& digests, const Host& host, const RunArguments& options,
                  LoopSettings settings) {
  leave_out_runs_in_jobs(runs, listeners.store, listeners.progress);
  if (runs.empty()) return ExitCode::kOk;
  const std::string who = fmt::format("process {} on {}, fsdp-run of '{}'", getpid(), host.name,
                                      runs.front().experiment);
  std::optional<DeviceClaim> claim;
  if (!take_devices(claim, devices_of(runs, host), who, options.share, listeners.progress)) {
    return ExitCode::kInterrupted;
  }

  const auto needed = static_cast<size_t>(gpus_needed(runs));
  const bool may_be_held = needed == 0 || options.share;
  LocalLauncher launcher({.gpus = may_be_held ? host.gpus : unheld_gpus(host.gpus, needed),
                          .cpu_ranks = static_cast<int>(host.resources.cpu_cores),
                          .max_parallel = options.max_parallel,
                          .share = options.share});
  settings.follow_up = [&](const RunRecord& ended, RunStatus status) {
    return planner.after(ended, status);
  };
  RunLoop loop(launcher, listeners.progress, digests, &listeners.store, std::move(settings));
  return loop.run(std::move(runs));
}

namespace {

// True if the run's result is of an attempt up to `attempt`.
bool has_earlier_result(const Store& store, const RunRecord& run, int attempt) {
  if (run.status != RunStatus::kFinished) return false;
  const std::vector<AttemptRecord> attempts = store.attempts(run.id);
  return std::ranges::none_of(attempts, [&](const AttemptRecord& later) {
    return later.attempt > attempt && later.status == RunStatus::kFinished;
  });
}

}  // namespace

std::string how_to_go_on(const Store& store, const std::filesystem::path& results,
                         const std::vector<RunRecord>& runs) {
  constexpr size_t kMostNamed = 5;
  std::vector<std::string> states;
  for (const RunRecord& planned : runs) {
    const auto run = store.run(planned.id);
    if (!run) continue;
    if (has_earlier_result(store, *run, planned.attempt)) {
      states.push_back(run->point + " has its earlier result (to begin it anew: --rerun --only " +
                       shell_quoted(run->point) + ")");
    }
    if (!is_cut_short(run->status)) continue;
    const auto step = newest_saved_step(RunPaths(results / run->folder));
    states.push_back(run->point + (step ? " is saved at step " + std::to_string(*step)
                                        : " is not saved, as it has no checkpoint"));
  }
  if (states.size() > kMostNamed) {
    const size_t more = states.size() - kMostNamed;
    states.resize(kMostNamed);
    states.push_back(counted(static_cast<int64_t>(more), "more run"));
  }
  states.push_back("to go on: " + own_command());
  return fmt::to_string(fmt::join(states, "; "));
}

}  // namespace fsdp
