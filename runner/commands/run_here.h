#pragma once

#include <vector>

#include "contract/record/exit_code.h"
#include "runner/attempt/open_attempt.h"
#include "runner/host/host.h"
#include "runner/sweep/run_experiment.h"
#include "runner/sweep/run_planner.h"

namespace fsdp {

// What `run` does with the runs of an experiment on this host. Those that are in jobs of Slurm are
// left to them.
ExitCode run_here(std::vector<RunToLaunch> runs, const RunPlanner& planner,
                  const RunListeners& listeners, const Host& host, int max_parallel,
                  SweepSettings settings);

}  // namespace fsdp
