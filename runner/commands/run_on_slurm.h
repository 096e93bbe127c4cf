#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/commands/run_arguments.h"
#include "runner/jobs/job_submission.h"
#include "runner/jobs/queue_sweep.h"
#include "runner/slurm/slurm.h"
#include "runner/sweep/run_planner.h"
#include "runner/sweep/stop_signals.h"

namespace fsdp {

// What `run --launcher slurm` does with the runs of an experiment.
class SlurmRunner {
 public:
  SlurmRunner(const RunListeners& listeners, const JobSubmission::Settings& submission,
              SlurmOptions options, RunPlanner& planner);

  // Before the runs are planned: brings open jobs up to date. False: asked to stop.
  bool pick_up() { return sweep_.pick_up(); }
  // Submits those that are in no job, and follows all, as far as the options want it.
  ExitCode run(std::vector<RunToLaunch> runs);

 private:
  // Those that are to be submitted now.
  std::vector<RunToLaunch> to_submit(std::vector<RunToLaunch> runs);
  ExitCode stopped();

  RunListeners listeners_;
  RunPlanner& planner_;
  std::string again_;  // the command that goes on
  std::string cancel_;
  SlurmOptions options_;
  size_t not_submitted_ = 0;  // runs without a result that --follow leaves alone
  SlurmQueue queue_;
  StopSignals stop_signals_;
  JobSubmission submission_;
  QueueSweep sweep_;
};

}  // namespace fsdp
