#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/system/program.h"
#include "runner/cluster/request.h"
#include "runner/commands/run.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

// The longest time without an answer from Slurm while runs wait to be submitted.
constexpr std::chrono::minutes kSlurmPatience{10};
constexpr std::chrono::minutes kSlurmPatienceDetached{1};

std::string results_option(const std::filesystem::path& results) {
  const bool is_default = results == std::filesystem::current_path() / "results";
  return is_default ? "" : " --results " + shell_quoted(results.string());
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::lround(seconds * 1000));
}

}  // namespace

SlurmRunner::SlurmRunner(const RunListeners& listeners, const JobSubmission::Settings& submission,
                         SlurmOptions options, RunPlanner& planner)
    : listeners_(listeners),
      planner_(planner),
      experiment_(submission.experiment),
      again_(own_command()),
      cancel_("fsdp-run cancel " + shell_quoted(submission.experiment) +
              results_option(listeners.results)),
      options_(options),
      submission_(listeners, *queue_, submission),
      sweep_(
          listeners, *queue_, submission_,
          {.experiment = submission.experiment,
           .follow_up = [&](const RunRecord& ended,
                            RunStatus status) { return planner.after(ended, status); },
           .query_interval = milliseconds(options.query_interval_s),
           .patience = options.detach ? kSlurmPatienceDetached : kSlurmPatience,
           .has_own_time_limit = submission.plan.time_limit_s > 0},
          {.now = std::chrono::steady_clock::now, .wait = [this](std::chrono::milliseconds time) {
             return stop_signals_.take(time) > 0;
           }}) {}

std::vector<RunRecord> SlurmRunner::to_submit(std::vector<RunRecord> runs) {
  const size_t in_jobs = std::erase_if(runs, [&](const RunRecord& run) {
    return sweep_.follows(run.id) || sweep_.leave_to_job(run);
  });
  if (in_jobs > 0) {
    listeners_.progress.say(counted(static_cast<int64_t>(in_jobs), "run") + " in jobs already");
  }
  if (options_.follow) {
    not_submitted_ = std::erase_if(runs, [&](const RunRecord& run) {
      const bool is_next = planner_.follows_from_ended(run.id) && run.status == RunStatus::kPlanned;
      return !is_next && !sweep_.may_start_again(run);
    });
  }
  return runs;
}

ExitCode SlurmRunner::run(std::vector<RunRecord> runs) {
  runs = to_submit(std::move(runs));
  const std::vector<RunSpec> specs = mapped(runs, &RunRecord::spec);
  if (!specs.empty()) {
    const bool is_search = std::ranges::any_of(
        runs, [](const RunRecord& run) { return run.family_value.has_value(); });
    listeners_.progress.say(fmt::format(
        "{} to be submitted: {}{}", counted(std::ssize(runs), "run"), most_held_text(specs),
        is_search ? "; more for further values of doubled keys" : ""));
  }
  if (!sweep_.submit(std::move(runs))) return stopped();
  if (options_.detach) {
    if (submission_.waiting() > 0) {
      listeners_.progress.warn(counted(submission_.waiting(), "run") +
                               " not submitted, because a limit on submitted jobs is reached; "
                               "when jobs have ended, call: " +
                               again_);
    }
    if (!listeners_.store.open_jobs(experiment_).empty()) {
      listeners_.progress.say("to follow the jobs: " + again_ + "; to end them: " + cancel_);
    }
    const bool all_are_in_jobs = submission_.waiting() == 0 && !submission_.some_refused();
    return all_are_in_jobs ? ExitCode::kOk : ExitCode::kRunFailed;
  }
  const ExitCode code = sweep_.follow();
  if (code == ExitCode::kInterrupted) return stopped();
  if (not_submitted_ == 0) return code;
  listeners_.progress.warn(
      counted(static_cast<int64_t>(not_submitted_), "run") +
      " without a result, and in no job; to submit what is left, call: " + again_);
  return ExitCode::kRunFailed;
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
