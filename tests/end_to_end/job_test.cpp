#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "tests/end_to_end/job_submission.h"
#include "tests/end_to_end/stub_runs.h"

// Tests the hidden command `attempt` in an experiment's job, and a runner that reads its files.
using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr const char* kBase =
    "{train.steps: 5, device: cpu, slurm: {mode: allocation, max_restarts: 2}}";

constexpr const char* kArray =
    "{train.steps: 5, device: cpu, slurm: {mode: per_run, max_restarts: 2}}";

// "first finished 1, second failed 2": point, status and attempt of each row.
std::string statuses(const Workplace& workplace) {
  std::string text;
  for (const ComparisonRow& row : rows(workplace)) {
    text += (text.empty() ? "" : ", ") + row.point + ' ' + std::string(name_of(row.status));
    if (row.attempt) text += ' ' + std::to_string(*row.attempt);
  }
  return text;
}

// Writes checkpoints and resumes. The stub trainer resumes only with one rank.
const std::string kSaves =
    "  - {name: slow, train.steps: 20, checkpoint.every_steps: 2, resume: auto}\n";
// The run waits after its first checkpoint until it is asked to stop.
const Variables kHeld{{"STUB_RULES", "point=slow,step=4,await=/nonexistent"}};

void wait_for_checkpoint(const RunPaths& paths) {
  REQUIRE(soon([&] { return std::filesystem::exists(paths.checkpoint(2)); }));
}

}  // namespace

TEST_CASE("a job runs an experiment, and its runner reads all of it from files") {
  const Workplace workplace(kTwoPoints, kBase);
  Submission submission(workplace);
  const std::string database = text_of(workplace.results() / "results.sqlite");
  const Ended job = submission.run({{"STUB_RULES", "point=second,rank=1,step=3,fail=no luck"}});
  CHECK(job.status == 1);
  CHECK_THAT(job.errors,
             Contains("first: finished") && Contains("second: failed: rank 1: no luck"));
  CHECK(text_of(workplace.results() / "results.sqlite") == database);
  for (const auto& left : std::filesystem::directory_iterator(workplace / ".")) {  // TMPDIR
    CHECK_THAT(left.path().filename().string(), !StartsWith("fsdp-run-"));
  }

  const AttemptStart start = submission.start(0, 1);
  CHECK(start.slurm_job == "12");
  CHECK(start.node_list == "n[1-2]");
  CHECK(start.host == "n1");
  CHECK(submission.end(0, 1).outcome == LaunchOutcome::kExited);
  CHECK(submission.end(1, 1).outcome == LaunchOutcome::kFailed);
  CHECK_THAT(submission.end(1, 1).reason, Contains("srun exited with status 1"));
  CHECK(submission.verdict(0, 1)->status == RunStatus::kFinished);
  CHECK(submission.verdict(1, 1)->status == RunStatus::kFailed);

  CHECK(submission.follow().empty());
  CHECK(statuses(workplace) == "first finished 1, second failed 1");
  CHECK(rows(workplace)[1].reason == "rank 1: no luck");
  CHECK(rows(workplace)[0].steps == 5);
}

TEST_CASE("a job doubles a key as the runner outside would") {
  const Workplace workplace(
      "  - {name: FSDP}\n  - {name: after, train.seed: 2}\n"
      "sweep: {double: {batch.size_per_rank: {from: 1, refine: true}}}\n",
      "{train.steps: 2, device: cpu, memory_limit_gib: 1, slurm.mode: allocation}");
  Submission submission(workplace);
  const Ended job = submission.run({{"STUB_RULES", "batch_above=5,out_of_memory=no room"}});
  CHECK(job.status == 0);
  const auto folders = [&] {
    std::vector<std::string> names;
    for (const auto& run : std::filesystem::directory_iterator(workplace / "results/runs/trial")) {
      names.push_back(run.path().filename());
    }
    std::ranges::sort(names);
    return names;
  };
  const std::vector<std::string> made = folders();
  CHECK(made.size() == 12);

  CHECK(submission.follow().empty());
  CHECK(folders() == made);
  std::string found;
  Store store(workplace.results());
  for (const RunRecord& run : store.runs()) {
    const std::string written = text_of(workplace.results() / run.folder / "run.yaml");
    CHECK(written == store.spec_text(run.id));
    CHECK(run.folder.string().ends_with(run.hash.substr(0, 8)));
    CHECK(run.attempt == 1);
  }
  for (const ComparisonRow& row : rows(workplace)) {
    if (!row.point.starts_with("FSDP")) continue;
    found += std::to_string(row.spec.batch.size_per_rank) + ' ' + std::string(name_of(row.status)) +
             "; ";
  }
  CHECK(found ==
        "1 finished; 2 finished; 4 finished; 5 finished; 6 out_of_memory; 8 out_of_memory; ");
}

TEST_CASE("a job chose a value whose folder belonged to another list of the experiment") {
  const Workplace workplace(
      "  - {name: same}\n  - {name: other, train.steps: 3}\n"
      "sweep: {double: {batch.size_per_rank: {from: 1, to: 2}}}\n",
      "{train.steps: 2, device: cpu, slurm.mode: allocation}");
  std::set<std::filesystem::path> folders;
  for (const std::vector<std::string>& set : {{}, std::vector<std::string>{"train.steps=2"}}) {
    Submission submission(workplace, {.token = std::to_string(set.size()), .set = set});
    CHECK(submission.run().status == 0);
    CHECK(submission.follow().empty());
  }
  for (const RunRecord& run : Store(workplace.results()).runs()) {
    CAPTURE(run.experiment, run.point);
    CHECK(run.status == RunStatus::kFinished);
    CHECK(run.attempt == 1);
    CHECK(attempts_with_folder(RunPaths(workplace.results() / run.folder)) == std::vector<int>{1});
    folders.insert(run.folder);
  }
  CHECK(folders.size() == 8);
}

TEST_CASE("what a job chose for a second repeat was taken for the first one's choice") {
  const Workplace workplace(
      "  - {name: FSDP}\nsweep: {double: {batch.size_per_rank: {from: 1}}, repeats: 2}\n",
      "{train.steps: 2, device: cpu, memory_limit_gib: 1, slurm.mode: allocation}");
  Submission submission(workplace);
  submission.run({{"STUB_RULES", "batch_above=2,out_of_memory=no room"}});
  CHECK(submission.follow().empty());
  for (const std::string repeat : {"1", "2"}) {
    CHECK_THAT(statuses(workplace), Contains("size_per_rank=4 #" + repeat + " out_of_memory 1"));
  }
}

TEST_CASE("a job that runs again left alone the values that an earlier job had chosen") {
  const Workplace workplace(
      "  - {name: FSDP}\nsweep: {double: {batch.size_per_rank: {from: 1}}}\n",
      "{train.steps: 2, device: cpu, memory_limit_gib: 1, slurm.mode: allocation}");
  const Variables rules{{"STUB_RULES", "batch_above=2,out_of_memory=no room"}};
  Submission before(workplace);
  before.run(rules);
  CHECK(before.follow().empty());
  Submission again(workplace, {.rerun = true, .token = "other", .job = "13"});
  CHECK_THAT(again.run(rules).errors, !Contains("left alone"));
  CHECK(again.follow().empty());
  CHECK(statuses(workplace) ==
        "FSDP size_per_rank=1 finished 2, FSDP size_per_rank=2 finished 2, "
        "FSDP size_per_rank=4 out_of_memory 2");
}

TEST_CASE("near its time limit a job saves, is requeued, and goes on where it was") {
  const auto [base, requeue, end] = GENERATE(table<std::string, std::string, std::string>(
      {{kBase, "requeue 12\n", "quick finished 1, slow finished 2, last finished 1"},
       {kArray, "requeue 12_1\n", "quick queued, slow finished 2, last queued"}}));
  const bool is_array = base == kArray;
  const Workplace workplace("  - {name: quick}\n" + kSaves + "  - {name: last}\n", base);
  Submission submission(workplace);
  Program job(workplace / ".", submission.command(), submission.variables(kHeld));
  wait_for_checkpoint(submission.paths(1));
  job.send(SIGUSR1);
  const Ended first = job.wait();
  CHECK(first.status == 130);
  CHECK_THAT(first.errors, Contains("the job's time limit is near: stopping the runs") &&
                               Contains("slow: time_limit"));
  CHECK(text_of(workplace / "scontrol") == requeue);
  CHECK(submission.end(1, 1).outcome == LaunchOutcome::kTimeLimit);
  CHECK_FALSE(std::filesystem::exists(submission.paths(2).attempt(1)));

  const Ended second = submission.run({{"SLURM_RESTART_COUNT", "1"}});
  CHECK(second.status == 0);
  CHECK_THAT(second.errors, Contains("slow: started") && !Contains("quick: started"));
  CHECK_FALSE(std::filesystem::exists(submission.paths(0).attempt(2)));

  CHECK(submission.follow().empty() == !is_array);
  CHECK(statuses(workplace) == end);
  CHECK(rows(workplace)[1].resumed_from_step > 0);
}

TEST_CASE("a job that Slurm does not requeue at once asks again, and goes on") {
  const Workplace workplace(kSaves, kBase);
  Submission submission(workplace);
  const std::string failing = GENERATE("squeue", "scontrol");
  const std::filesystem::path real = workplace / ("bin/" + failing + ".real");
  std::filesystem::rename(workplace / ("bin/" + failing), real);
  // The first call fails.
  std::ofstream(workplace / ("bin/" + failing))
      << "#!/bin/bash\nmkdir \"$0.failed\" 2>/dev/null || exec -a \"$0\" \"$0.real\" \"$@\"\n"
         "echo 'slurm_load_jobs error: Socket timed out on send/recv operation' >&2\nexit 1\n";
  std::filesystem::permissions(workplace / ("bin/" + failing), std::filesystem::perms::owner_all);
  const Ended first = submission.run({{"STUB_RULES", "point=slow,step=4,exit=130"}});
  CHECK(first.status == 130);
  CHECK_THAT(first.errors, Contains("Socket timed out") && Contains("it is asked again"));
  CHECK(text_of(workplace / "scontrol") == "requeue 12\n");
}

TEST_CASE("ranks that are asked to stop without their job end the job, which asks to go on") {
  const Workplace workplace(kSaves + "  - {name: last}\n", kBase);
  Submission submission(workplace);
  const std::string state = GENERATE("RUNNING", "CANCELLED");
  submission.job_becomes(state);
  const Ended first = submission.run({{"STUB_RULES", "point=slow,step=4,exit=130"}});
  CHECK(first.status == 130);
  CHECK_THAT(first.errors, Contains("ranks were asked to stop: stopping the runs"));
  CHECK(submission.end(0, 1).outcome == LaunchOutcome::kInterrupted);
  CHECK_FALSE(std::filesystem::exists(submission.paths(1).attempt(1)));
  CHECK(std::filesystem::exists(workplace / "scontrol") == (state == "RUNNING"));

  CHECK(submission.run({{"SLURM_RESTART_COUNT", "1"}}).status == 0);
  CHECK(submission.follow().empty());
  CHECK(statuses(workplace) == "slow finished 2, last finished 1");
}

// Starts the job, whose run waits before `step`. Sends the signal of its time limit when `file`
// exists. Returns true if the job asked to be requeued.
bool comes_to_its_limit(const Workplace& workplace, const Submission& submission, int64_t step,
                        const std::filesystem::path& file) {
  std::filesystem::remove(workplace / "scontrol");
  const std::string rule = "point=slow,step=" + std::to_string(step) + ",await=/nonexistent";
  Program job(workplace / ".", submission.command(), submission.variables({{"STUB_RULES", rule}}));
  REQUIRE(soon([&] { return std::filesystem::exists(file); }));
  job.send(SIGUSR1);
  CHECK(job.wait().status == 130);
  return std::filesystem::exists(workplace / "scontrol");
}

TEST_CASE("runs beside each other in a job hold equal shares of it") {
  const auto [most, share] = GENERATE(table<int, double>({{0, 1}, {1, 1}, {2, 0.5}, {9, 0.5}}));
  const Workplace workplace("  - {name: a}\n  - {name: b}\n",
                            fmt::format("{{train.steps: 2, device: cpu, slurm: {{mode: allocation, "
                                        "max_parallel: {}}}}}",
                                        most));
  Submission submission(workplace);
  CHECK(submission.run({{"SLURM_JOB_NUM_NODES", "3"}, {"SLURM_GPUS_ON_NODE", "4"}}).status == 0);
  for (const size_t run : {0, 1}) {
    CHECK(submission.start(run, 1).nodes_held == 3 * share);
    CHECK(submission.start(run, 1).gpus_held == 12 * share);
  }
}

TEST_CASE("a job that was started again often enough is not requeued, nor works") {
  const Workplace workplace(kSaves, kBase);
  Submission submission(workplace);
  for (int start = 1; start <= 3; ++start) {  // no start completes a step
    const RunPaths paths = submission.paths(0);
    CHECK(comes_to_its_limit(workplace, submission, 1, paths.events(start, 0)) == (start < 3));
  }
  const Ended once_more = submission.run({{"SLURM_RESTART_COUNT", "3"}});
  CHECK(once_more.status == 1);
  const std::string why =
      "; slurm.max_restarts is reached: 3 starts in a row without a new checkpoint";
  CHECK_THAT(once_more.errors, Contains("slow: not started again" + why));
  CHECK_FALSE(std::filesystem::exists(submission.paths(0).attempt(4)));
  CHECK(submission.follow() == std::vector<std::string>{"slow"});
  CHECK(statuses(workplace) == "slow time_limit 3");
  CHECK_THAT(rows(workplace)[0].reason, Catch::EndsWith(why));
}

TEST_CASE("a job whose every start left a new checkpoint was not started again") {
  const Workplace workplace(kSaves, kBase);
  Submission submission(workplace);
  for (int64_t step = 4; step <= 10; step += 2) {
    const std::filesystem::path checkpoint = submission.paths(0).checkpoint(step - 2);
    CHECK(comes_to_its_limit(workplace, submission, step, checkpoint));
  }
  CHECK(submission.run({{"SLURM_RESTART_COUNT", "4"}}).status == 0);
  CHECK(submission.follow().empty());
  CHECK(statuses(workplace) == "slow finished 5");
}

TEST_CASE(
    "a job that is cancelled or preempted says so, and leaves it to Slurm to start it again") {
  const Workplace workplace(kSaves, kBase);
  Submission submission(workplace);
  Program job(workplace / ".", submission.command(), submission.variables(kHeld));
  wait_for_checkpoint(submission.paths(0));
  job.send(SIGTERM);
  CHECK(job.wait().status == 130);
  CHECK(submission.end(0, 1).outcome == LaunchOutcome::kInterrupted);
  CHECK_FALSE(submission.verdict(0, 1));  // only Slurm knows
  CHECK_FALSE(std::filesystem::exists(workplace / "scontrol"));
  CHECK(submission.follow() == std::vector<std::string>{"slow"});
}

TEST_CASE("what a node took with it is left to the job's next start, with all that comes after") {
  const Workplace workplace(kTwoPoints, kBase);
  Submission submission(workplace);
  const Ended first = submission.run(
      {{"NODE_GONE", "n2"}, {"STUB_RULES", "point=first,rank=1,step=3,fail=connection closed"}});
  CHECK(first.status == 130);
  CHECK_THAT(first.errors, Contains("first: node_failed: a node of the job failed, after step") &&
                               !Contains("second: started"));
  CHECK(submission.end(0, 1).outcome == LaunchOutcome::kNodeFailed);
  const Ended second = submission.run({{"SLURM_RESTART_COUNT", "1"}});
  CHECK(second.status == 0);
  CHECK(submission.follow().empty());
  CHECK(statuses(workplace) == "first finished 2, second finished 1");
}

TEST_CASE("an attempt of a job that was killed is taken up by the requeued job") {
  const Workplace workplace(kSaves, kBase);
  Submission submission(workplace);
  {
    Program job(workplace / ".", submission.command(), submission.variables(kHeld));
    wait_for_checkpoint(submission.paths(0));
    job.send(SIGKILL);
    job.wait();
  }
  for (const pid_t process : workplace.reported_processes()) kill(process, SIGKILL);  // as slurmd
  const Ended second = submission.run({{"SLURM_RESTART_COUNT", "1"}});
  CHECK(second.status == 0);
  CHECK(submission.verdict(0, 1)->status == RunStatus::kNodeFailed);
  CHECK(submission.follow().empty());
  CHECK(statuses(workplace) == "slow finished 2");
  CHECK(rows(workplace)[0].resumed_from_step > 0);
}

TEST_CASE("a job that runs again what has a result begins anew, and after a requeue goes on") {
  const Workplace workplace(kSaves + "  - {name: quick}\n", kBase);
  Submission before(workplace);
  before.run();
  CHECK(before.follow().empty());

  Submission submission(workplace, {.rerun = true, .token = "other"});
  REQUIRE(submission.runs().size() == 2);
  Program job(workplace / ".", submission.command(), submission.variables(kHeld));
  REQUIRE(soon([&] {
    return std::filesystem::exists(submission.paths(0).attempt(1) / "checkpoints") &&
           std::filesystem::exists(submission.paths(0).checkpoint(2));
  }));
  job.send(SIGUSR1);
  job.wait();
  const Ended second = submission.run({{"SLURM_RESTART_COUNT", "1"}});
  CHECK(second.status == 0);
  CHECK(submission.follow().empty());
  CHECK(statuses(workplace) == "slow finished 3, quick finished 2");
  CHECK(rows(workplace)[0].resumed_from_step > 0);
}

TEST_CASE("a job that Slurm started late ran what a runner outside of jobs had taken") {
  const Workplace workplace(kTwoPoints, kBase);
  Submission submission(workplace);
  {
    Store store(workplace.results());
    JobRecord job = store.open_jobs("trial").at(0);
    for (JobTask& task : job.tasks) {
      task.over = true;
      store.update_task(job.id, task);
    }
  }
  CHECK(workplace.run({"experiment.yaml", "--only", "second"}).status == 0);
  const Ended job = submission.run();
  CHECK_THAT(job.errors, Contains("second: left alone, because a later call has taken it") &&
                             Contains("first: finished"));
  CHECK_FALSE(std::filesystem::exists(submission.paths(1).attempt(2)));
}

TEST_CASE("a job runs only what was submitted, and refuses a damaged record of it") {
  const Workplace workplace(kTwoPoints, kBase);
  Submission submission(workplace);
  submission.write({submission.runs()[1]});
  CHECK(submission.run().status == 0);
  CHECK_FALSE(std::filesystem::exists(submission.paths(0).attempt(1)));
  CHECK(std::filesystem::exists(submission.paths(1).attempt(1)));

  std::ofstream(submission.folder() / "run-0.json") << "{";
  const Ended refused = submission.run();
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("run-0.json: is not what fsdp-run writes there"));
  std::filesystem::remove(submission.folder() / "run-0.json");
  CHECK_THAT(submission.run().errors, Contains("the job has no run for its task 0"));
}

TEST_CASE("runs are side by side in a job that may have several at a time") {
  const Workplace workplace(
      "  - {name: first}\n  - {name: second}\n"
      "  - {name: third, strategy: {kind: ddp, ranks: 2}}\n",
      "{train.steps: 5, device: cpu, slurm: {mode: allocation, "
      "max_parallel: 2}}");
  Submission submission(workplace);
  const std::string go = (workplace / "go").string();
  Program job(workplace / ".", submission.command(),
              submission.variables({{"STUB_RULES", "await=" + go}}));
  job.wait_for_error_text("second: started");
  CHECK_FALSE(std::filesystem::exists(submission.paths(2).attempt(1)));
  std::ofstream(go).flush();
  CHECK(job.wait().status == 0);
  CHECK(submission.follow().empty());
  CHECK(statuses(workplace) == "first finished 1, second finished 1, third finished 1");
  const int64_t one_ended =
      std::min(submission.end(0, 1).ended_unix_ms, submission.end(1, 1).ended_unix_ms);
  CHECK(submission.start(0, 1).started_unix_ms <= one_ended);
  CHECK(submission.start(1, 1).started_unix_ms <= one_ended);
  CHECK(submission.start(2, 1).started_unix_ms >= one_ended);
}

TEST_CASE("a task of an array runs its own run, as the first attempt that is free") {
  const Workplace workplace(kTwoPoints, kArray);
  Submission submission(workplace);
  std::filesystem::create_directories(submission.paths(1).attempt(1));
  const Ended job = submission.run({{"OMP_NUM_THREADS", "3"}});
  CHECK(job.status == 0);
  CHECK_THAT(job.errors,
             Contains("job 12_1 on n[1-2], start 1, OMP_NUM_THREADS 3\n"
                      "second: 2 CPU ranks on 1 node, total batch 8 = 2 CPU ranks x per-device "
                      "batch 4 x accumulation 1\n") &&
                 Contains("second: finished") && !Contains("first"));
  CHECK_FALSE(std::filesystem::exists(submission.paths(0).attempt(1)));
  CHECK(submission.start(1, 2).slurm_job == "12_1");
  CHECK(submission.end(1, 2).inputs_compared);
  CHECK(submission.follow() == std::vector<std::string>{"first"});
  CHECK(statuses(workplace) == "first queued, second finished 2");
}

TEST_CASE("a run that ends in the time which its job had left asks for no other start") {
  const Workplace workplace("  - {name: quick}\n  - {name: slow}\n", kArray);
  Submission submission(workplace);
  const std::string go = (workplace / "go").string();
  Program job(workplace / ".", submission.command(),
              submission.variables({{"STUB_RULES", "step=4,deaf=1; step=5,await=" + go}}));
  job.wait_for_error_text("slow: started");
  job.send(SIGUSR1);
  job.wait_for_error_text("time limit is near");
  std::ofstream(go).flush();
  CHECK(job.wait().status == 130);
  CHECK(submission.end(1, 1).outcome == LaunchOutcome::kExited);
  CHECK_FALSE(std::filesystem::exists(workplace / "scontrol"));
}

TEST_CASE("outside of a job the command says what it is for") {
  const Workplace workplace(kTwoPoints, kBase);
  const Submission submission(workplace);
  const Ended ended = Program(workplace / ".", submission.command()).wait();
  CHECK(ended.status == 2);
  CHECK_THAT(ended.errors, Contains("works inside of a job of Slurm only"));
}
