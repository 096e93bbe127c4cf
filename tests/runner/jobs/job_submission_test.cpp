#include "runner/cluster/job_submission.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "tests/runner/jobs/slurm_fixture.h"

using namespace fsdp;
using enum RunStatus;

namespace {

// A cluster that stops a caller which calls sbatch again and again without a pause.
class FullCluster : public FakeCluster {
 public:
  std::string submit(const std::filesystem::path& script) override {
    if (submissions == 3) throw std::runtime_error("sbatch is called without a pause");
    return FakeCluster::submit(script);
  }
};

// A cluster whose controller keeps a record of refused jobs, as a real one does in some cases.
class RecordingCluster : public FakeCluster {
 public:
  std::string submit(const std::filesystem::path& script) override {
    FakeCluster::submit(script);
    throw QueueRefused("sbatch refuses the job: Invalid partition name specified", false);
  }
};

// A cluster whose sbatch refuses every script, and whose controller then does not answer.
class SilentCluster : public FakeCluster {
 public:
  std::string submit(const std::filesystem::path&) override {
    ++submissions;
    is_down = true;
    throw QueueRefused("sbatch refuses the job: Invalid --mem specification", false);
  }
};

}  // namespace

TEST_CASE("one job for all runs that meets a limit on submitted jobs waits, and is whole") {
  const ResultsFolder results;
  FullCluster cluster;
  SlurmRunnerLife life(results, cluster);
  const std::vector<RunRecord> runs = life.plan(two_runs(SlurmMode::kAllocation));
  cluster.most_waiting = 0;
  REQUIRE(life.sweep.submit(runs));
  CHECK(cluster.submissions == 1);
  CHECK_FALSE(life.sweep.follows(runs[0].id));
  CHECK(life.store.open_jobs("").empty());
  cluster.most_waiting = 1;
  life.is_asked_to_stop = true;
  CHECK(life.sweep.follow() == ExitCode::kInterrupted);
  CHECK(life.sweep.follows(runs[0].id));
  CHECK(cluster.submissions == 2);
  CHECK(life.store.open_jobs("lab").at(0).tasks.size() == 2);
}

TEST_CASE_METHOD(OneRunner,
                 "a job is told that its run has a result, though a later attempt was cut short") {
  RunRecord run = life.plan(runs_of_one_shape(1)).front();
  for (const RunStatus status : {kFinished, kNodeFailed}) {
    const int attempt = life.store.begin_attempt(run.id, attempt_start());
    life.store.end_attempt(run.id, attempt, status, "", 2'000);
    run.status = status;
    run.attempt = attempt;
  }
  REQUIRE(life.sweep.submit({run}));
  const JobPlan plan{
      .file = "lab.yaml", .working_directory = "", .results = lab.results.path(), .trainer = ""};
  const RunRecord told = read_job_runs(lab.submission(life.store), plan, 0).front().run;
  CHECK(told.status == kFinished);
  CHECK(told.attempt == 2);
}

TEST_CASE_METHOD(OneRunner, "a job starts the runner by the path that the submission was told") {
  REQUIRE(life.sweep.submit(life.plan(two_runs(SlurmMode::kAllocation))));
  const JobRecord job = life.store.open_jobs("lab").at(0);
  std::ifstream script(lab.results.path() / job.folder / "script.sh");
  const std::string text{std::istreambuf_iterator<char>(script), {}};
  CHECK_THAT(text, Catch::Matchers::Contains("\nexec /opt/fsdp-run attempt "));
}

TEMPLATE_TEST_CASE("a refusal is told at once, whatever squeue says of the job, or nothing", "",
                   RecordingCluster, SilentCluster) {
  const ResultsFolder results;
  TestType cluster;
  SlurmRunnerLife life(results, cluster);
  const std::vector<RunRecord> runs = life.plan(two_runs(SlurmMode::kPerRun));
  REQUIRE(life.sweep.submit(runs));
  CHECK(cluster.submissions == 1);
  CHECK_FALSE(life.sweep.follows(runs[1].id));
  CHECK(life.status(runs[0].id) == RunStatus::kFailed);
  CHECK(life.progress.count("sbatch refuses the job: Invalid ") == 2);
  CHECK(life.store.open_jobs("").empty());
}

TEST_CASE_METHOD(OneRunner,
                 "runs that Slurm refuses have failed with its words, and others go on") {
  std::vector<RunRecord> planned = runs_of_one_shape(2);
  planned[1].spec.slurm.partition = "other";
  const std::vector<RunRecord> runs = life.plan(planned);
  lab.cluster.refused_script = "--partition=other";
  REQUIRE(life.sweep.submit(runs));
  CHECK(life.status(runs[0].id) == kQueued);
  CHECK(life.status(runs[1].id) == kFailed);
  CHECK(life.progress.count("invalid partition") == 1);
  CHECK(life.store.open_jobs("").size() == 1);
}

TEST_CASE_METHOD(OneRunner, "runs that are refused when they are to run again keep their results") {
  const std::vector<RunRecord> planned = runs_of_one_shape(2);
  const std::vector<RunRecord> runs = life.plan(planned);
  const int64_t finished = runs[0].id;
  const int attempt = life.store.begin_attempt(finished, attempt_start());
  life.store.end_attempt(finished, attempt, kFinished, "", 2'000);
  lab.cluster.refused_script = "--array=";
  REQUIRE(life.sweep.submit(life.plan(planned)));
  CHECK(life.progress.count("invalid partition") == 2);
  CHECK(life.status(finished) == kFinished);
  CHECK(life.status(runs[1].id) == kFailed);
  CHECK(life.sweep.follow() == ExitCode::kRunFailed);
}

TEST_CASE_METHOD(OneRunner,
                 "where submitted jobs are limited, what fits is submitted, and the rest later") {
  lab.cluster.most_waiting = 3;
  const std::vector<RunRecord> runs = submitted(5);
  const auto queued = [&] {
    return std::ranges::count_if(
        runs, [&](const RunRecord& run) { return life.status(run.id) == kQueued; });
  };
  CHECK(queued() == 3);
  const auto all_finish = [&] {
    for (const RunRecord& run : runs) {
      const std::vector<JobRecord> jobs = life.store.jobs_of_run(run.id);
      if (jobs.empty() || jobs.back().tasks[0].over) continue;
      const std::string task = slurm_name(jobs.back(), jobs.back().tasks[0].task);
      FakeJob job = lab.job(run);
      lab.begins_and_finishes(job, task);
    }
  };
  life.happens = {all_finish, [] {}, all_finish};
  CHECK(life.sweep.follow() == ExitCode::kOk);
  for (const RunRecord& run : runs) CHECK(life.attempts(run.id) == Statuses{kFinished});
}

TEST_CASE_METHOD(OneRunner, "an array has no more tasks than the cluster allows") {
  lab.cluster.configuration.max_array_size = 2;
  const std::vector<RunRecord> runs = submitted(5);
  CHECK(lab.cluster.submissions == 3);
  CHECK(lab.cluster.known.contains("102_0"));
  CHECK_FALSE(lab.cluster.known.contains("100_2"));
}

TEST_CASE_METHOD(OneRunner, "what keeps a job from starting is said at once, and once") {
  const std::vector<RunRecord> runs = submitted(2);
  for (const char* task : {"100_0", "100_1"}) {
    lab.cluster.known[task].reason = "PartitionDown";
  }
  life.happens = {[] {}, [] {}, [&] { life.is_asked_to_stop = true; }};
  CHECK(life.sweep.follow() == ExitCode::kInterrupted);
  CHECK(life.progress.count("does not start") == 1);
}

TEST_CASE_METHOD(OneRunner, "slurm.max_parallel holds over all arrays of a sweep") {
  lab.cluster.configuration.max_array_size = 2;
  std::vector<RunRecord> planned = runs_of_one_shape(5);
  const auto [most, awaited] = GENERATE(table<int64_t, std::vector<std::string>>({
      {0, {"", "", ""}},
      {1, {"", "100", "100:101"}},
      {3, {"", "100", "100"}},
      {4, {"", "", "100"}},
      {5, {"", "", ""}},
  }));
  for (RunRecord& run : planned) {
    run.spec.slurm.max_parallel = most;
    run.spec.slurm.dependency = "afterok:7";
  }
  REQUIRE(life.sweep.submit(life.plan(planned)));
  CHECK(lab.cluster.submissions == 3);
  std::vector<std::string> found(3);
  for (const auto& [script, job] : lab.cluster.scripts) {
    std::smatch match;
    const std::string text = read_text_file(script);
    if (std::regex_search(text, match, std::regex("--dependency=afterok:7,afterany:([0-9:]+)"))) {
      std::vector<std::string> jobs;
      std::istringstream list(match[1]);
      for (std::string each; std::getline(list, each, ':');) jobs.push_back(each);
      std::ranges::sort(jobs);
      found.at(std::stoul(job) - 100) = fmt::format("{}", fmt::join(jobs, ":"));
    }
  }
  CHECK(found == awaited);
}

TEST_CASE_METHOD(OneRunner,
                 "a task that is held or waits in vain keeps no later job from starting") {
  lab.cluster.configuration.max_array_size = 1;
  std::vector<RunRecord> planned = runs_of_one_shape(2);
  for (RunRecord& run : planned) run.spec.slurm.max_parallel = 1;
  const std::vector<RunRecord> runs = life.plan(planned);
  REQUIRE(life.sweep.submit({runs[0]}));
  const auto [reason, is_awaited] = GENERATE(table<std::string, bool>({
      {"Priority", true},
      {"JobHeldUser", false},
      {"JobHeldAdmin", false},
      {"JobHoldMaxRequeue", false},
      {"job requeued in held state", false},
      {"launch failed requeued held", false},
      {"DependencyNeverSatisfied", false},
  }));
  CAPTURE(reason);
  lab.cluster.known["100_0"].reason = reason;
  life.happens = {[] {}, [&] { life.is_asked_to_stop = true; }};
  CHECK(life.sweep.follow() == ExitCode::kInterrupted);
  life.is_asked_to_stop = false;
  REQUIRE(life.sweep.submit({runs[1]}));
  const auto second =
      std::ranges::find(lab.cluster.scripts, "101", [](const auto& each) { return each.second; });
  const bool waits =
      read_text_file(second->first).find("--dependency=afterany:100") != std::string::npos;
  CHECK(waits == is_awaited);
}
