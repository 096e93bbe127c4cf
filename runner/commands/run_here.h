#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "contract/record/exit_code.h"
#include "runner/commands/run_arguments.h"
#include "runner/host/host.h"
#include "runner/run/attempt.h"
#include "runner/run/run_loop.h"
#include "runner/run/run_planner.h"

namespace fsdp {

// Starts an experiment's runs on this host, for `run`. Runs in jobs of Slurm are left to their
// jobs.
ExitCode run_here(std::vector<RunRecord> runs, RunPlanner& planner, const RunListeners& listeners,
                  const Host& host, const RunArguments& options, LoopSettings settings);

// Returns a line for the user. It names runs that were cut short, with their newest checkpoints,
// and runs that keep an earlier result. It ends with the command that goes on. `runs` are as they
// were planned.
std::string how_to_go_on(const Store& store, const std::filesystem::path& results,
                         const std::vector<RunRecord>& runs);

}  // namespace fsdp
