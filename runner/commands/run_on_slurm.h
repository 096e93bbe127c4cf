#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/cluster/job_loop.h"
#include "runner/cluster/job_submission.h"
#include "runner/cluster/slurm.h"
#include "runner/commands/run_arguments.h"
#include "runner/run/run_loop.h"
#include "runner/run/run_planner.h"

namespace fsdp {

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
  SlurmQueue queue_;
  StopSignals stop_signals_;
  JobSubmission submission_;
  JobLoop sweep_;
};

}  // namespace fsdp
