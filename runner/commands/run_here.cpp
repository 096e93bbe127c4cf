#include "runner/commands/run_here.h"

#include <algorithm>
#include <set>
#include <utility>

#include "contract/spec/yaml_value.h"
#include "runner/jobs/open_jobs.h"
#include "runner/launch/gpus.h"
#include "runner/launch/local_launcher.h"

namespace fsdp {
namespace {

// Those of the host that nobody holds, enough for each of the runs.
std::vector<Gpu> gpus_for(const std::vector<RunToLaunch>& runs, const Host& host) {
  int64_t needed = 0;
  for (const RunToLaunch& run : runs) {
    if (run.spec.device == DeviceKind::kCuda) needed = std::max(needed, run.spec.strategy.ranks);
  }
  return needed == 0 ? host.gpus : unheld_gpus(host.gpus, static_cast<size_t>(needed));
}

void leave_out_runs_in_jobs(std::vector<RunToLaunch>& runs, const RunPlanner& planner,
                            const Store& store, Progress& progress) {
  const std::set<int64_t> in_jobs = runs_in_jobs(store);
  const size_t left_out = std::erase_if(runs, [&](const RunToLaunch& run) {
    return in_jobs.contains(run.record.id) || (planner.follows_from_ended(run.record.id) &&
                                               store.allocation_that_comes_to(run.record.id));
  });
  if (left_out == 0) return;
  progress.say(counted(static_cast<int64_t>(left_out), "run") +
               " in jobs of Slurm, left to them: --launcher slurm follows them");
}

}  // namespace

ExitCode run_here(std::vector<RunToLaunch> runs, const RunPlanner& planner,
                  const RunListeners& listeners, const Host& host, int max_parallel,
                  SweepSettings settings) {
  leave_out_runs_in_jobs(runs, planner, listeners.store, listeners.progress);
  LocalLauncher launcher({.gpus = gpus_for(runs, host),
                          .cpu_ranks = static_cast<int>(host.resources.cpu_cores),
                          .max_parallel = max_parallel});
  Sweep sweep(listeners.store, launcher, listeners.progress, std::move(settings));
  return sweep.run(std::move(runs));
}

}  // namespace fsdp
