#include "runner/cluster/job_plan.h"

#include "base/text/config_error.h"
#include "runner/run/attempt_files.h"
#include "tests/runner/store/store_fixture.h"

using namespace fsdp;
using Catch::Matchers::Contains;

TEST_CASE("a job reads the plan as it was written") {
  const TemporaryFolder folder;
  const JobPlan plan{.file = "/home/u/my experiments/\"a\".yaml",
                     .working_directory = "/home/u",
                     .profile = "small",
                     .set = {"train.steps=3", "title=a: [b]\n#c"},
                     .only = {"4xFSDP size=2", "${x}"},
                     .results = "/scratch/results",
                     .trainer = "/opt/fsdp-train",
                     .time_limit_s = 0.5};
  write_job_plan(folder.path(), plan, "experiment: lab\n", {});
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
  folder.write("job.yaml", "mode: maybe\n");
  CHECK_THROWS_WITH(read_job_plan(folder.path()), Contains("job.yaml:1:7"));
}

TEST_CASE("the experiment in a job is the one of the submission, its paths those of the file") {
  const TemporaryFolder folder, experiments;
  const auto file = experiments.write("lab.yaml", "experiment: changed\n");
  const JobPlan plan{.file = file, .working_directory = "", .results = "", .trainer = ""};
  write_job_plan(folder.path(), plan,
                 "experiment: lab\nbase:\n  data: {train: train.npy}\n  device: cpu\n", {});
  const Experiment loaded = load_planned_experiment(folder.path(), plan);
  CHECK(loaded.name() == "lab");
  CHECK(loaded.file() == file);
  CHECK(loaded.expand({}, {}).runs.front().spec.data.train == experiments / "train.npy");
}

TEST_CASE("a task reads its own run, and an allocation all of them") {
  const ResultsFolder results;
  const TemporaryFolder folder;
  JobPlan plan{
      .file = "lab.yaml", .working_directory = "", .results = results.path(), .trainer = ""};
  std::vector<JobRun> runs;
  for (const std::string point : {"one", "two"}) {
    RunRecord run = planned_run(point, 2);
    run.id = std::ssize(runs) + 7;
    run.attempt = 3;
    run.status = RunStatus::kFinished;
    run.family_value = 4;
    write_spec(RunPaths(results.path() / run.folder), run.spec);
    runs.push_back({.run = run,
                    .inputs = {{.state = {.path = "/data/train.npy", .inode = 5}, .digest = "abc"}},
                    .search = SearchState()});
  }
  runs[1].search->known = {runs[0].run};
  runs[1].search->too_large = 64;
  write_job_plan(folder.path(), plan, "", runs);
  const std::vector<JobRun> own = read_job_runs(folder.path(), plan, 1);
  REQUIRE(own.size() == 1);
  CHECK(own[0].run.id == 8);
  CHECK(own[0].run.point == "two");
  CHECK(own[0].run.folder == runs[1].run.folder);
  CHECK(own[0].run.attempt == 3);
  CHECK(own[0].run.status == RunStatus::kFinished);
  CHECK(own[0].run.family_value == 4);
  CHECK(own[0].run.spec == runs[1].run.spec);
  CHECK(own[0].inputs == runs[1].inputs);
  REQUIRE(own[0].search);
  CHECK(own[0].search->known.at(0).id == 7);
  CHECK(own[0].search->too_large == 64);
  CHECK_FALSE(own[0].search->expected);
  CHECK_THROWS_WITH(read_job_runs(folder.path(), plan, 2), Contains("no run for its task 2"));
  plan.mode = SlurmMode::kAllocation;
  CHECK(read_job_runs(folder.path(), plan, 0).size() == 2);
}

TEST_CASE("the runs of one job ask for the same") {
  RunRecord first, second;
  first.point = "one", second.point = "other";
  CHECK(slurm_of_all(std::vector{first, second}) == SlurmSpec());
  second.spec.slurm.cpus_per_task = 2;
  CHECK_THROWS_AS(slurm_of_all(std::vector{first, second}), ConfigError);
  CHECK_THROWS_WITH(slurm_of_all(std::vector{first, second}), Contains("'one' and 'other'"));
}
