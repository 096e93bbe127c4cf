#include "runner/cluster/job_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/files/digest.h"
#include "base/system/unix_time.h"
#include "base/text/config_error.h"
#include "contract/spec/yaml_value.h"
#include "runner/cluster/job_submission.h"
#include "runner/host/whole_file.h"
#include "runner/run/attempt.h"
#include "runner/run/planned_runs.h"
#include "runner/run/run_planner.h"

namespace fsdp {

namespace {

// Files of the submission's folder.
constexpr const char* kPlan = "job.yaml";
constexpr const char* kExperiment = "experiment.yaml";
constexpr const char* kStore = "planning.sqlite";

}  // namespace

void write_job_plan(const std::filesystem::path& folder, const JobPlan& plan,
                    const std::string& experiment_text, const Store& store) {
  std::string text;
  JobPlan::visit_fields(plan, [&](const char* name, const auto& member) {
    text += fmt::format("{}: {}\n", name, yaml_text(member));
  });
  replace_file(folder / kPlan, text);
  replace_file(folder / kExperiment, experiment_text);
  store.write_planning_copy(folder / kStore);
}

JobPlan read_job_plan(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kPlan;
  const YamlOrigin origin{.name = file.string(), .folder = folder};
  const YAML::Node map = parse_yaml(read_text_file(file), origin);
  JobPlan plan;
  for (const YamlEntry& entry : entries(map, origin, "", origin.name)) {
    JobPlan::visit_fields(plan, [&](const char* name, auto& member) {
      if (entry.path == name) read_value(member, entry, any_value());
    });
  }
  return plan;
}

Experiment load_planned_experiment(const std::filesystem::path& folder, const JobPlan& plan) {
  return Experiment::from_text(plan.file, read_text_file(folder / kExperiment));
}

void copy_planning_store(const std::filesystem::path& folder,
                         const std::filesystem::path& results) {
  std::filesystem::copy_file(folder / kStore, results / "results.sqlite");
}

SlurmRequest largest_request(std::span<const RunRecord> runs) {
  std::vector<SlurmRequest> requests;
  for (const RunRecord& run : runs) requests.push_back(slurm_request(run.spec));
  return largest(requests);
}

std::vector<std::filesystem::path> input_folders_of(std::span<const RunRecord> runs) {
  std::vector<std::filesystem::path> folders;
  for (const RunRecord& run : runs) {
    for (std::filesystem::path& folder : input_folders(run.spec)) {
      if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(std::move(folder));
    }
  }
  return folders;
}

const SlurmSpec& slurm_of_all(std::span<const RunRecord> runs) {
  const RunRecord& first = runs.front();
  for (const RunRecord& run : runs) {
    check_one_job(first.point, first.spec.slurm, run.point, run.spec.slurm);
  }
  return first.spec.slurm;
}

namespace {

const std::filesystem::path& with_copy(const std::filesystem::path& local,
                                       const std::filesystem::path& folder) {
  copy_planning_store(folder, local);
  return local;
}

// Keeps the submitted ones among the runs that the planner in the job found.
std::vector<RunRecord> submitted(std::vector<RunRecord> runs, const JobPlan& plan) {
  std::erase_if(runs, [&](const RunRecord& run) {
    return std::ranges::find(plan.runs, run.folder.string()) == plan.runs.end();
  });
  if (runs.size() == plan.runs.size()) return runs;
  throw ConfigError(plan.file.string(), "",
                    "its runs are not those that were submitted: an input file has changed since, "
                    "or looks different from this node; submit it again");
}

std::optional<int64_t> expected(const JobPlan& plan, const std::string& family) {
  for (const std::string& entry : plan.expected) {
    if (entry.starts_with(family + '=')) return std::stoll(entry.substr(family.size() + 1));
  }
  return std::nullopt;
}

RunRecord run_of_task(const Store& store, const JobPlan& plan, int64_t task) {
  if (task >= 0 && task < std::ssize(plan.runs)) {
    for (RunRecord& run : store.runs()) {
      if (run.folder != plan.runs[static_cast<size_t>(task)]) continue;
      run.spec = store.spec(run.id);
      return run;
    }
  }
  throw ConfigError(plan.file.string(), "",
                    fmt::format("the job has no run for its task {}; submit it again", task));
}

}  // namespace

struct RunsOfJob::Planned {
  Planned(const std::filesystem::path& folder, const JobPlan& plan, Store& store,
          Progress& progress)
      : experiment(load_planned_experiment(folder, plan)),
        digest(remembered(
            [&store](const std::filesystem::path& file) { return current_digest(store, file); })),
        planner(store, experiment, digest,
                {.device_kind = slurm_device_kind,
                 .rerun = plan.rerun,
                 .expected_value = [&plan](auto&, auto& family) { return expected(plan, family); },
                 .skip_oversized = plan.skip_oversized,
                 .say = [&](const std::string& line) { progress.say(line); }}) {}

  std::vector<RunRecord> runs(const JobPlan& plan) {
    const Expansion expansion = experiment.expand(
        {.profile = plan.profile, .set = plan.set, .only = plan.only, .on_cluster = true},
        Resources());
    return planner.plan({.name = experiment.name(),
                         .title = experiment.title(),
                         .file = plan.file,
                         .text = experiment.text(),
                         .text_digest = text_digest(experiment.text()),
                         .profile = expansion.profile},
                        expansion, planned_runs(experiment, expansion.runs, digest),
                        left_out_runs(experiment, expansion.left_out, digest));
  }

  Experiment experiment;
  FileDigest digest;
  RunPlanner planner;
};

RunsOfJob::RunsOfJob(const std::filesystem::path& folder, const JobPlan& plan, int64_t task,
                     Progress& progress)
    : token_(plan.token), store_(with_copy(local_.path(), folder)) {
  if (plan.mode == SlurmMode::kPerRun) {
    runs_ = {run_of_task(store_, plan, task)};
    return;
  }
  planned_ = std::make_unique<Planned>(folder, plan, store_, progress);
  runs_ = submitted(planned_->runs(plan), plan);
}

RunsOfJob::~RunsOfJob() = default;

std::optional<RunRecord> RunsOfJob::after(const RunRecord& ended, RunStatus status) {
  return planned_ ? planned_->planner.after(ended, status) : std::nullopt;
}

// The local database knows the job by the one name that its attempts are given. A task of an array
// is therefore a job of its own there.
int64_t RunsOfJob::record_job(const std::string& slurm_job) {
  return store_.record_job({.experiment = runs_.front().experiment,
                            .token = token_,
                            .slurm_job = slurm_job,
                            .mode = std::string(name_of(SlurmMode::kAllocation)),
                            .folder = {},
                            .submitted_unix_ms = now_unix_ms(),
                            .provenance = Provenance(),
                            .tasks = {}});
}

}  // namespace fsdp
