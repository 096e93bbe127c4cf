#include "runner/commands/run_on_slurm.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "runner/launch/shell_quoted.h"
#include "trainer/contract/yaml_value.h"

namespace fsdp {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::lround(seconds * 1000));
}

}  // namespace

SlurmRunner::SlurmRunner(const RunListeners& listeners, const std::filesystem::path& file,
                         JobSubmission::Settings submission, SlurmOptions options,
                         decltype(SlurmSweep::Settings::follow_up) follow_up)
    : listeners_(listeners),
      again_("fsdp-run " + shell_quoted(file.string()) + " --launcher slurm"),
      cancel_("fsdp-run cancel " + shell_quoted(submission.experiment)),
      options_(options),
      submission_(listeners, cluster_, submission),
      sweep_(
          listeners, cluster_, submission_,
          {.experiment = submission.experiment,
           .follow_up = std::move(follow_up),
           .query_interval = milliseconds(options.query_interval_s)},
          {.now = std::chrono::steady_clock::now, .wait = [this](std::chrono::milliseconds time) {
             return stop_signals_.take(time) > 0;
           }}) {}

ExitCode SlurmRunner::run(std::vector<RunToLaunch> runs) {
  const size_t in_jobs =
      std::erase_if(runs, [&](const RunToLaunch& run) { return sweep_.follows(run.record.id); });
  if (in_jobs > 0) {
    listeners_.progress.say(counted(static_cast<int64_t>(in_jobs), "run") +
                            " in jobs already, which are followed");
  }
  if (options_.follow) runs.clear();
  if (!sweep_.submit(std::move(runs))) return stopped();
  if (options_.detach) {
    if (submission_.waiting() > 0) {
      listeners_.progress.warn(counted(submission_.waiting(), "run") +
                               " not submitted: a limit on submitted jobs is reached; when jobs "
                               "have ended: " +
                               again_);
    }
    listeners_.progress.say("to follow the jobs: " + again_ + "; to end them: " + cancel_);
    return submission_.some_refused() ? ExitCode::kRunFailed : ExitCode::kOk;
  }
  const ExitCode code = sweep_.follow();
  return code == ExitCode::kInterrupted ? stopped() : code;
}

ExitCode SlurmRunner::stopped() {
  if (submission_.waiting() > 0) {
    listeners_.progress.say(counted(submission_.waiting(), "run") + " not submitted");
  }
  listeners_.progress.say("the jobs go on: " + again_ + " follows them again, " + cancel_ +
                          " ends them");
  return ExitCode::kInterrupted;
}

}  // namespace fsdp
