#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runner/slurm/slurm.h"
#include "runner/sweep/job_submission.h"
#include "runner/sweep/slurm_sweep.h"
#include "runner/sweep/stop_signals.h"

namespace fsdp {

struct SlurmOptions {
  bool detach = false;
  bool follow = false;
  double query_interval_s = 3;
};

// What `run --launcher slurm` does with the runs of an experiment.
class SlurmRunner {
 public:
  SlurmRunner(const RunListeners& listeners, const std::filesystem::path& file,
              JobSubmission::Settings submission, SlurmOptions options,
              decltype(SlurmSweep::Settings::follow_up) follow_up);

  // Before the runs are planned: brings open jobs up to date. False: asked to stop.
  bool pick_up() { return sweep_.pick_up(); }
  // Submits those that are in no job, and follows all, as far as the options want it.
  ExitCode run(std::vector<RunToLaunch> runs);

 private:
  ExitCode stopped();

  RunListeners listeners_;
  std::string again_;  // the command that goes on
  std::string cancel_;
  SlurmOptions options_;
  SlurmPrograms cluster_;
  StopSignals stop_signals_;
  JobSubmission submission_;
  SlurmSweep sweep_;
};

}  // namespace fsdp
