#include "runner/cluster/job_plan.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/files/digest.h"
#include "base/files/whole_file.h"
#include "base/text/config_error.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/spec/yaml_value.h"
#include "formats/inputs/inputs.h"
#include "runner/cluster/job_submission.h"
#include "runner/run/attempt.h"
#include "runner/run/attempt_files.h"
#include "runner/run/planned_runs.h"
#include "runner/run/run_planner.h"
#include "runner/store/record_files.h"
#include "runner/store/run_files.h"

namespace fsdp {
namespace {

// Files of the submission's folder.
constexpr const char* kPlan = "job.yaml";
constexpr const char* kExperiment = "experiment.yaml";
constexpr const char* kClaim = "claim";  // a symbolic link, because it appears with its text

std::filesystem::path run_file(const std::filesystem::path& folder, int64_t number) {
  return folder / fmt::format("run-{}.json", number);
}

// Returns the number of a run that a job chose. Numbers of planned runs are smaller, so the index
// of results gives this one to no other run.
int64_t number_of(const RunRecord& run) {
  constexpr int64_t kFirst = 500'000'000;
  const std::string digest = text_digest(run.point + '\n' + run.hash);
  return kFirst + std::stoll(digest.substr(0, 7), nullptr, 16);
}

}  // namespace

std::string claim_submission(const std::filesystem::path& folder, const std::string& job) {
  std::error_code error;
  std::filesystem::create_symlink(job, folder / kClaim, error);
  if (!error) return job;
  if (error != std::errc::file_exists) {
    throw std::system_error(error, "cannot claim " + folder.string());
  }
  return std::filesystem::read_symlink(folder / kClaim).string();
}

std::optional<std::string> withdraw_submission(const std::filesystem::path& folder) {
  std::error_code hidden;
  if (!std::filesystem::exists(folder, hidden)) {
    if (hidden) throw std::system_error(hidden, "cannot claim " + folder.string());
    return std::nullopt;  // no job can read its plan
  }
  claim_submission(folder, kWithdrawn);
  return job_of_submission(folder);
}

std::optional<std::string> job_of_submission(const std::filesystem::path& folder) {
  std::error_code nobody;
  const std::string claim = std::filesystem::read_symlink(folder / kClaim, nobody).string();
  return nobody || claim == kWithdrawn ? std::nullopt : std::optional(claim);
}

uid_t submitter_of(const std::filesystem::path& folder) {
  struct stat status {};
  return stat(folder.c_str(), &status) == 0 ? status.st_uid : geteuid();
}

void write_job_plan(const std::filesystem::path& folder, const JobPlan& plan,
                    const std::string& experiment_text, std::span<const JobRun> runs) {
  std::string text;
  JobPlan::visit_fields(plan, [&](const char* name, const auto& member) {
    text += fmt::format("{}: {}\n", name, yaml_text(member));
  });
  replace_file(folder / kPlan, text);
  replace_file(folder / kExperiment, experiment_text);
  for (size_t i = 0; i < runs.size(); ++i) {
    write_record(run_file(folder, static_cast<int64_t>(i)), runs[i]);
  }
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

std::vector<JobRun> read_job_runs(const std::filesystem::path& folder, const JobPlan& plan,
                                  int64_t task) {
  const bool is_array = plan.mode == SlurmMode::kPerRun;
  std::vector<JobRun> runs;
  for (int64_t number = is_array ? task : 0;; ++number) {
    const std::filesystem::path file = run_file(folder, number);
    if (!std::filesystem::exists(file)) break;
    try {
      RunRecord& run = runs.emplace_back(read_record<JobRun>(file)).run;
      run.spec = read_run_spec(RunPaths(plan.results / run.folder).spec());
      if (runs.back().search && !run.family_value) throw std::runtime_error("a search of no key");
    } catch (const std::exception& error) {
      throw ConfigError(file.string(), "",
                        fmt::format("is not what fsdp-run writes there: {}", error.what()));
    }
    if (is_array) break;
  }
  if (!runs.empty()) return runs;
  throw ConfigError(plan.file.string(), "",
                    fmt::format("the job has no run for its task {}; submit it again", task));
}

SlurmRequest largest_request(std::span<const RunRecord> runs) {
  std::vector<SlurmRequest> requests;
  for (const RunRecord& run : runs) requests.push_back(slurm_request(run.spec));
  return largest(requests);
}

std::vector<std::filesystem::path> folders_of_container(const JobPlan& plan,
                                                        std::span<const RunRecord> runs) {
  std::vector<std::filesystem::path> files{plan.results / "runs"};
  if (slurm_of_all(runs).container.trainer.empty()) files.push_back(plan.trainer);
  for (const RunRecord& run : runs) {
    for (const auto& [key, file] : input_files(run.spec)) files.push_back(file);
  }
  return folders_to_bind(files);
}

const SlurmSpec& slurm_of_all(std::span<const RunRecord> runs) {
  const RunRecord& first = runs.front();
  for (const RunRecord& run : runs) {
    check_one_job(first.point, first.spec.slurm, run.point, run.spec.slurm);
  }
  return first.spec.slurm;
}

DoubledRuns::DoubledRuns(const std::filesystem::path& folder, const JobPlan& plan,
                         std::span<const JobRun> runs, FileDigests& digests, Progress& progress)
    : folder_(folder),
      results_(plan.results),
      digest_([&digests](const std::filesystem::path& file) { return digests.current(file); }),
      progress_(progress) {
  const auto is_searched = [](const JobRun& run) { return run.search.has_value(); };
  if (std::ranges::none_of(runs, is_searched)) return;
  list_ = runs.front().run.experiment;
  const Experiment experiment = load_planned_experiment(folder, plan);
  const Expansion expansion = experiment.expand({.profile = plan.profile,
                                                 .set = plan.set,
                                                 .repeats = plan.repeats,
                                                 .only = plan.only,
                                                 .on_cluster = true},
                                                Resources());
  for (const auto& [run, inputs, state, anew] : runs) {
    const auto same = std::ranges::find(expansion.runs, run.position, &Run::position);
    if (!state || same == expansion.runs.end() || !same->doubling) continue;
    Doubling search = same->doubling->search();
    if (state->expected) search.expect_to_be_largest(*state->expected);
    if (state->largest_that_fits) search.fits(*state->largest_that_fits);
    if (state->smallest_that_does_not_fit) search.does_not_fit(*state->smallest_that_does_not_fit);
    series_.emplace(run.id,
                    Series{{same->doubling, std::move(search), run.spec, state->most}, *state});
  }
}

std::optional<RunRecord> DoubledRuns::after(const RunRecord& ended, RunStatus status) {
  const auto found = series_.find(ended.id);
  if (found == series_.end()) return std::nullopt;
  Series series = found->second;
  if (!series.take_result(ended, status)) return std::nullopt;
  const SearchState& state = series.state;
  const auto fits = [&](const RunRecord& run) -> std::optional<bool> {
    if (state.begins_anew) return std::nullopt;
    if (run.status == RunStatus::kFinished) return true;
    if (state.too_large && *run.family_value >= *state.too_large) return false;
    return std::nullopt;
  };
  const auto next =
      next_to_launch(series, {.run_of = [&](int64_t value) { return run_of(series, value); },
                              .fits = fits,
                              .say = [&](const std::string& line) { progress_.say(line); }});
  if (!next) return std::nullopt;
  write_choice(*next, ended);
  series_.insert_or_assign(next->id, std::move(series));
  return next;
}

// An earlier job may own the run. The owner of the run before it owns this one, too.
void DoubledRuns::write_choice(const RunRecord& run, const RunRecord& ended) {
  write_run(results_, run);
  const std::string owner = folder_.filename();
  if (belongs_to(owner, RunPaths(results_ / ended.folder))) {
    take_run(RunPaths(results_ / run.folder), owner);
  }
}

// Returns the value's run, with its record if there is one.
RunRecord DoubledRuns::run_of(Series& series, int64_t value) {
  RunRecord run = planned_run(list_, doubled_run(series.doubling, value), digest_);
  run.experiment = list_;
  run.begins_anew = series.state.begins_anew;
  const auto known = std::ranges::find_if(series.state.known, [&](const RunRecord& other) {
    return other.point == run.point && other.hash == run.hash;
  });
  if (known == series.state.known.end()) {
    run.id = number_of(run);
    return run;
  }
  run.id = known->id;
  run.folder = known->folder;
  run.status = known->status;
  run.attempt = known->attempt;
  return run;
}

}  // namespace fsdp
