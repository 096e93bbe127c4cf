#include "runner/cluster/job_plan.h"

#include "base/text/config_error.h"
#include "tests/runner/store/store_fixture.h"

using namespace fsdp;
using Catch::Matchers::Contains;

TEST_CASE("a job reads the plan as it was written") {
  const ResultsFolder results;
  const TemporaryFolder folder;
  const Store store(results.path());
  const JobPlan plan{.token = "token",
                     .file = "/home/u/my experiments/\"a\".yaml",
                     .working_directory = "/home/u",
                     .profile = "small",
                     .set = {"train.steps=3", "title=a: [b]\n#c"},
                     .only = {"4xFSDP size=2", "${x}"},
                     .rerun = true,
                     .results = "/scratch/results",
                     .trainer = "/opt/fsdp-train",
                     .time_limit_s = 0.5,
                     .runs = {"runs/lab/a-1", "runs/lab/b-2"}};
  write_job_plan(folder.path(), plan, "experiment: lab\n", store);
  const JobPlan read = read_job_plan(folder.path());
  JobPlan::visit_fields(read, [&](const char* name, const auto& member) {
    JobPlan::visit_fields(plan, [&](const char* other, const auto& written) {
      if constexpr (std::same_as<decltype(member), decltype(written)>) {
        CAPTURE(name);
        if (name == std::string_view(other)) CHECK(member == written);
      }
    });
  });
}

TEST_CASE("a plan that is damaged is refused with its place") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_job_plan(folder.path()), Contains("job.yaml"));
  folder.write("job.yaml", "rerun: maybe\n");
  CHECK_THROWS_WITH(read_job_plan(folder.path()), Contains("job.yaml:1:8"));
}

TEST_CASE("the experiment in a job is the one of the submission, its paths those of the file") {
  const ResultsFolder results;
  const TemporaryFolder folder, experiments;
  const auto file = experiments.write("lab.yaml", "experiment: changed\n");
  const JobPlan plan{
      .token = "", .file = file, .working_directory = "", .results = "", .trainer = ""};
  write_job_plan(folder.path(), plan,
                 "experiment: lab\nbase:\n  data: {train: train.npy}\n  device: cpu\n",
                 Store(results.path()));
  const Experiment loaded = load_planned_experiment(folder.path(), plan);
  CHECK(loaded.name() == "lab");
  CHECK(loaded.file() == file);
  CHECK(loaded.expand({}, {}).runs.front().spec.data.train == experiments / "train.npy");
}

TEST_CASE("the runs of one job ask for the same") {
  RunRecord first, second;
  first.point = "one", second.point = "other";
  CHECK(slurm_of_all(std::vector{first, second}) == SlurmSpec());
  second.spec.slurm.cpus_per_task = 2;
  CHECK_THROWS_AS(slurm_of_all(std::vector{first, second}), ConfigError);
  CHECK_THROWS_WITH(slurm_of_all(std::vector{first, second}), Contains("'one' and 'other'"));
}
