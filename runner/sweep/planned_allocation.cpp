#include "runner/sweep/planned_allocation.h"

#include <algorithm>
#include <utility>

#include "contract/record/digest.h"
#include "contract/record/unix_time.h"
#include "contract/text/config_error.h"
#include "runner/experiment/doubling_series.h"
#include "runner/host/host.h"
#include "runner/sweep/input_changes.h"
#include "runner/sweep/job_submission.h"
#include "runner/sweep/planned_runs.h"

namespace fsdp {
namespace {

const std::filesystem::path& with_copy(const std::filesystem::path& local,
                                       const std::filesystem::path& folder) {
  copy_planning_store(folder, local);
  return local;
}

// Those that were submitted of the runs that the planner in the job came to.
std::vector<RunToLaunch> submitted(std::vector<RunToLaunch> runs, const AllocationPlan& plan) {
  std::erase_if(runs, [&](const RunToLaunch& run) {
    return std::ranges::find(plan.runs, run.record.folder.string()) == plan.runs.end();
  });
  if (runs.size() == plan.runs.size()) return runs;
  throw ConfigError(plan.file.string(), "",
                    "its runs are not those that were submitted: an input file has changed since, "
                    "or looks different from this node; submit it again");
}

}  // namespace

PlannedAllocation::PlannedAllocation(const std::filesystem::path& folder,
                                     const AllocationPlan& plan, Progress& progress)
    : token_(plan.token),
      store_(with_copy(local_.path(), folder)),
      experiment_(load_planned_experiment(folder, plan)),
      digest_(remembered(
          [this](const std::filesystem::path& file) { return current_digest(store_, file); })),
      planner_(store_, experiment_, digest_,
               {.device_kind = slurm_device_kind,
                .rerun = plan.rerun,
                .say = [&](const std::string& line) { progress.say(line); }}) {
  const Expansion expansion = experiment_.expand(
      {.profile = plan.profile, .set = plan.set, .only = plan.only, .on_cluster = true},
      Resources());
  runs_ = submitted(planner_.plan({.name = experiment_.name(),
                                   .title = experiment_.title(),
                                   .file = plan.file,
                                   .text = experiment_.text(),
                                   .text_digest = text_digest(experiment_.text()),
                                   .profile = expansion.profile},
                                  expansion, planned_runs(experiment_, expansion.runs, digest_),
                                  left_out_runs(experiment_, expansion.left_out, digest_)),
                    plan);
}

int64_t PlannedAllocation::record_job(const std::string& slurm_job) {
  for (const JobRecord& known : store_.open_jobs(experiment_.name())) {
    if (known.token != token_) continue;
    store_.set_slurm_job(known.id, slurm_job);
    return known.id;
  }
  return store_.record_job({.experiment = experiment_.name(),
                            .token = token_,
                            .slurm_job = slurm_job,
                            .mode = "allocation",
                            .folder = {},
                            .submitted_unix_ms = now_unix_ms(),
                            .provenance = Provenance(),
                            .tasks = {}});
}

}  // namespace fsdp
