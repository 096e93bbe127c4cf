#include "runner/jobs/job_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/host/whole_file.h"

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

}  // namespace fsdp
