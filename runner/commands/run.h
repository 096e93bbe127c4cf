#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/system/log.h"
#include "contract/record/exit_code.h"
#include "runner/cluster/job_loop.h"
#include "runner/cluster/job_submission.h"
#include "runner/cluster/queue.h"
#include "runner/commands/options.h"
#include "runner/host/host.h"
#include "runner/run/run_loop.h"
#include "runner/run/run_planner.h"

// The parts of the command `run`: its options, and how it executes runs here and on Slurm.
namespace fsdp {

struct SlurmOptions {
  bool detach = false;
  bool follow = false;
  double query_interval_s = 3;
};

// The user's options for the command `run`.
struct RunArguments : TrainerQuestion {
  int max_parallel = 1;
  double time_limit_seconds = 0;  // of each run; 0: none
  bool rerun = false;
  bool skip_oversized = false;
  bool share = false;
  LogLevel log_level = LogLevel::kInfo;
  bool dry_run = false;
  bool per_rank = false;
  bool quiet = false;
  bool json = false;
  SlurmOptions slurm;
  bool prints_table = true;
};

// Runs an experiment, here or on Slurm. Prints progress to stderr and the table to stdout.
ExitCode run_experiment(const RunArguments& options);

// Starts an experiment's runs on this host, for `run`. Runs in jobs of Slurm are left to their
// jobs. `digests` remembers the contents of their input files.
ExitCode run_here(std::vector<RunRecord> runs, RunPlanner& planner, const RunListeners& listeners,
                  FileDigests& digests, const Host& host, const RunArguments& options,
                  LoopSettings settings);

// Returns a line for the user. It names runs that were cut short, with their newest checkpoints,
// and runs that keep an earlier result. It ends with the command that goes on. `runs` are as they
// were planned.
std::string how_to_go_on(const Store& store, const std::filesystem::path& results,
                         const std::vector<RunRecord>& runs);

// Submits and follows an experiment's runs, for `run --launcher slurm`.
class SlurmRunner {
 public:
  SlurmRunner(const RunListeners& listeners, const JobSubmission::Settings& submission,
              SlurmOptions options, RunPlanner& planner);

  // Brings open jobs up to date, before the runs are planned. Returns false if asked to stop.
  bool pick_up() { return sweep_.pick_up(); }
  // Submits the runs that are in no job, and follows all runs, as far as the options allow.
  ExitCode run(std::vector<RunRecord> runs);

 private:
  // Returns the runs to submit now.
  std::vector<RunRecord> to_submit(std::vector<RunRecord> runs);
  ExitCode stopped();

  RunListeners listeners_;
  RunPlanner& planner_;
  std::string experiment_;
  std::string again_;  // the command that continues
  std::string cancel_;
  SlurmOptions options_;
  size_t not_submitted_ = 0;  // runs without a result that --follow does not submit
  const std::unique_ptr<Queue> queue_ = make_queue();
  StopSignals stop_signals_;
  JobSubmission submission_;
  JobLoop sweep_;
};

}  // namespace fsdp
