#include "runner/cluster/step_launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/text/config_error.h"
#include "tests/runner/slurm/fake_slurm.h"

using namespace fsdp;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

constexpr Patience kShort{.after_failure = 200ms, .after_terminate = 200ms};
constexpr Patience kEndless{.after_failure = 1h, .after_terminate = 1h};

// A Slurm whose squeue lists no step.
class FakeSrun : public FakeSlurm {
 public:
  FakeSrun() {
    let("squeue", "echo '12.batch batch'");
    let("scancel", "exit 1");
  }

  std::filesystem::path path() const { return folder().path(); }
  std::string text(const std::string& name) const { return text_of(path() / name); }
  // Waits until the file holds a whole line.
  std::string line(const std::string& name) const {
    for (const auto deadline = std::chrono::steady_clock::now() + 2min;
         std::chrono::steady_clock::now() < deadline; std::this_thread::sleep_for(2ms)) {
      const std::string written = text(name);
      if (const size_t end = written.find('\n'); end != std::string::npos) {
        return written.substr(0, end);
      }
    }
    FAIL("nobody wrote " << name);
    return "";
  }
  // Returns the request for an attempt of the run `name`.
  LaunchRequest request(int64_t id, const std::string& name, int ranks,
                        bool uses_gpus = false) const {
    const std::filesystem::path attempt = path() / name / "attempt-2";
    std::filesystem::create_directories(attempt);
    LaunchRequest request{.id = id, .trainer = "/opt/fsdp-train", .arguments = {"--attempt", "2"}};
    request.uses_gpus = uses_gpus;
    for (int rank = 0; rank < ranks; ++rank) {
      request.rank_logs.push_back(attempt / ("rank" + std::to_string(rank) + ".log"));
    }
    return request;
  }
};

Allocation allocation(int64_t nodes, int64_t ranks_per_node, int64_t gpus_per_node = 0) {
  Allocation allocation{
      .job = "12",
      .size = {.nodes = nodes, .ranks_per_node = ranks_per_node, .gpus_per_node = gpus_per_node}};
  allocation.slurm.nodes = nodes;
  allocation.slurm.gpus_per_node = gpus_per_node;
  return allocation;
}

AttemptEnd wait_for_one(StepLauncher& launcher) {
  for (;;) {
    const std::vector<AttemptEnd> results = launcher.wait(1h);
    if (!results.empty()) return results.front();
  }
}

AttemptEnd run(const FakeSrun& slurm, const std::string& srun) {
  slurm.let("srun", srun);
  StepLauncher launcher(allocation(1, 4), kEndless);
  launcher.start(slurm.request(7, "lab", 4));
  return wait_for_one(launcher);
}

// Makes a shell run until a signal.
const std::string kHang = "echo > $FAKE_SLURM/started; while :; do sleep 0.01; done";

// Checks the end of a step that is asked to stop while its srun runs.
void check_stops(const FakeSrun& slurm, const std::string& srun, const Patience& patience) {
  slurm.let("srun", srun + "\n" + kHang);
  StepLauncher launcher(allocation(1, 4), patience);
  launcher.start(slurm.request(7, "lab", 4));
  slurm.line("started");
  launcher.stop_all();
  const AttemptEnd result = wait_for_one(launcher);
  CHECK(result.outcome == LaunchOutcome::kInterrupted);
  CHECK(result.reason == "asked to stop");
}

}  // namespace

TEST_CASE("a step is told its size, its name, where ranks write, and the trainer with its words") {
  const FakeSrun slurm;
  slurm.let("srun", R"(printf '%s\n' "$@" > $FAKE_SLURM/words)");
  Allocation job = allocation(2, 4, 4);
  job.slurm.cpus_per_task = 6;
  job.slurm.srun_options = {"--cpu-bind=cores"};
  StepLauncher launcher(job, kEndless);
  launcher.start(slurm.request(7, "lab 100%", 8, true));
  const AttemptEnd result = wait_for_one(launcher);
  CHECK(result.run == 7);
  CHECK(result.outcome == LaunchOutcome::kExited);
  CHECK(result.reason.empty());
  const std::string words = slurm.text("words");
  for (const std::string word :
       {"--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=6", "--gres=gpu:4",
        "--cpu-bind=cores", "--exact", "--mem=0", "--wait=60", "--job-name=lab 100%/attempt-2"}) {
    CHECK_THAT("\n" + words, Contains("\n" + word + "\n"));
  }
  CHECK_THAT(words,
             Contains("--output=" + slurm.path().string() + "/lab 100%%/attempt-2/rank%t.log\n"));
  CHECK_THAT(words, EndsWith("\n/opt/fsdp-train\n--attempt\n2\n"));
}

TEST_CASE("a step has its run's variables, and of launchers' those that slurm.environment names") {
  const FakeSrun slurm;
  slurm.let("srun", "env > $FAKE_SLURM/environment");
  setenv("TORCHELASTIC_RUN_ID", "stray", 1);
  setenv("MASTER_PORT", "23456", 1);
  Allocation job = allocation(1, 1);
  job.slurm.environment = {"MASTER_PORT=23456"};
  StepLauncher launcher(job, kEndless);
  LaunchRequest request = slurm.request(7, "lab", 1);
  request.environment = {"HOME=/of/the/run"};
  launcher.start(request);
  wait_for_one(launcher);
  CHECK_THAT('\n' + slurm.text("environment"), Contains("\nHOME=/of/the/run\n"));
  for (const char* name : {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}) unsetenv(name);
  CHECK_THAT(slurm.text("environment"), !Contains("TORCHELASTIC_RUN_ID"));
  CHECK_THAT(slurm.text("environment"), Contains("MASTER_PORT=23456\n"));
}

TEST_CASE("srun's exit status says how ranks ended, and what it says first which one") {
  struct End {
    const char* srun;
    LaunchOutcome outcome;
    std::string reason;
    int first_rank = -1;
  };
  const std::string limit = "the job's memory limit (slurm.mem) was reached";
  const std::string node = "a node of the job failed";
  const std::string gone = "the job no longer has its nodes";
  const End end = GENERATE_COPY(values<End>(
      {{"echo 'srun: error: n1: task 2: Exited with exit code 7' >&2;"
        "echo 'srun: error: n1: tasks 0-1: Killed' >&2; exit 137",
        LaunchOutcome::kFailed, "srun exited with status 137: n1: task 2: Exited with exit code 7",
        2},
       {"echo 'srun: error: n1: tasks 0-3: Exited with exit code 1' >&2; exit 1",
        LaunchOutcome::kFailed,
        "srun exited with status 1: n1: tasks 0-3: Exited with exit code 1"},
       {"echo 'srun: error: Unable to create step for job 12: Job has ended' >&2; exit 1",
        LaunchOutcome::kFailed,
        "srun exited with status 1: Unable to create step for job 12: Job has ended"},
       {"echo 'srun: fatal: cpus-per-task set by two different variables' >&2; exit 1",
        LaunchOutcome::kFailed,
        "srun exited with status 1: cpus-per-task set by two different variables"},
       {"exit 3", LaunchOutcome::kOutOfMemory, "a rank ran out of memory"},
       // Slurm's cgroup sees to the limit, OverMemoryKill does, and in words of newer versions.
       {"echo 'slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.0. Some of your"
        " processes may have been killed by the cgroup out-of-memory handler.' >&2;"
        "echo 'srun: error: n1: task 1: Exited with exit code 130' >&2;"
        "echo 'srun: error: n1: task 2: Out Of Memory' >&2; exit 253",
        LaunchOutcome::kOutOfMemory, limit},
       {"echo 'slurmstepd-n1: error: Exceeded job memory limit' >&2; exit 137",
        LaunchOutcome::kOutOfMemory, limit},
       {"echo 'slurmstepd: error: Detected 2 oom_kill events in StepId=12.0. Some of the step"
        " tasks have been OOM Killed.' >&2; exit 130",
        LaunchOutcome::kOutOfMemory, limit},
       // Slurm asks ranks to stop when it ends the job.
       {"echo 'srun: error: n1: tasks 0-3: Exited with exit code 130' >&2; exit 130",
        LaunchOutcome::kInterrupted, "asked to stop"},
       // A node is gone, whatever its ranks' peers made of it.
       {"echo 'srun: error: Node failure on n2' >&2;"
        "echo 'srun: error: n1: task 0: Exited with exit code 4' >&2; exit 4",
        LaunchOutcome::kNodeFailed, node},
       {"echo 'srun: error: Node failure on n2' >&2;"
        "echo 'srun: error: n1: task 0: Exited with exit code 130' >&2; exit 130",
        LaunchOutcome::kNodeFailed, node},
       {"echo 'srun: error: Node failure on n1' >&2; exit 0", LaunchOutcome::kNodeFailed, node},
       // Slurm has ended the job, or queued it again, before srun asks for the step.
       {"echo 'srun: error: Unable to confirm allocation for job 12: Job is pending execution' >&2;"
        "exit 1",
        LaunchOutcome::kNodeFailed, gone},
       {"echo 'srun: error: Unable to create step for job 12: Job/step already completing or "
        "completed' >&2; exit 1",
        LaunchOutcome::kNodeFailed, gone}}));
  CAPTURE(end.srun);
  const FakeSrun slurm;
  const AttemptEnd result = run(slurm, end.srun);
  CHECK(result.outcome == end.outcome);
  CHECK(result.reason == end.reason);
  CHECK(result.first_rank == end.first_rank);
}

TEST_CASE("an srun that is not there is said in the log") {
  const FakeSrun slurm;
  setenv("PATH", (slurm.path() / "nowhere").c_str(), 1);
  StepLauncher launcher(allocation(1, 4), kEndless);
  launcher.start(slurm.request(7, "lab", 4));
  const AttemptEnd result = wait_for_one(launcher);
  CHECK(result.outcome == LaunchOutcome::kFailed);
  CHECK_THAT(result.reason, Contains("srun exited with status 127"));
  CHECK_THAT(slurm.text("lab/attempt-2/srun.log"), Contains("srun"));
}

// This process's stderr is a file while this exists, as a job's is.
class JobOutput {
 public:
  explicit JobOutput(const std::filesystem::path& file) : before_(dup(STDERR_FILENO)) {
    const int output = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(output, STDERR_FILENO);
    close(output);
  }
  ~JobOutput() {
    dup2(before_, STDERR_FILENO);
    close(before_);
  }
  JobOutput(const JobOutput&) = delete;

 private:
  int before_;
};

TEST_CASE("of a step that OverMemoryKill kills, only the job's output may say why") {
  const FakeSrun slurm;
  const JobOutput output(slurm.path() / "12.out");
  const std::string complaint =
      "echo 'slurmstepd-n1: error: Exceeded job memory limit' >> $FAKE_SLURM/12.out";
  const AttemptEnd first = run(slurm, complaint + "; exit 137");
  CHECK(first.outcome == LaunchOutcome::kOutOfMemory);
  CHECK(first.reason == "the job's memory limit (slurm.mem) was reached");
  const AttemptEnd later = run(slurm, "exit 137");
  CHECK(later.outcome == LaunchOutcome::kFailed);
  const AttemptEnd not_killed = run(slurm, complaint + "; exit 1");
  CHECK(not_killed.outcome == LaunchOutcome::kFailed);
}

TEST_CASE("a step is asked to stop by the signal that srun forwards") {
  const FakeSrun slurm;
  check_stops(slurm,
              "trap 'echo forwarded > $FAKE_SLURM/signal; exit 130' USR1\n"
              "trap 'echo killed > $FAKE_SLURM/signal; exit 143' TERM",
              kEndless);
  CHECK(slurm.line("signal") == "forwarded");
}

TEST_CASE("of an srun that had to be killed, the step is ended, and no other one") {
  const FakeSrun slurm;
  // squeue lists the step until it is cancelled, and once more.
  slurm.let("squeue", R"(echo "$@" >> $FAKE_SLURM/squeue
echo '12.batch batch'; echo '12.3 other/attempt-2'
[ -e $FAKE_SLURM/gone ] || echo '12.4 lab/attempt-2'
[ ! -e $FAKE_SLURM/cancelled ] || touch $FAKE_SLURM/gone)");
  slurm.let("scancel", "echo \"$@\" >> $FAKE_SLURM/cancelled");
  check_stops(slurm, "trap '' USR1", kShort);
  CHECK(std::filesystem::exists(slurm.path() / "gone"));
  CHECK_THAT(slurm.line("squeue"), Contains("--steps") && Contains("--jobs=12"));
  CHECK_THAT(slurm.text("cancelled"), Contains("12.4\n") && !Contains("12.3"));
}

TEST_CASE("a time limit of a run ends its step") {
  const FakeSrun slurm;
  slurm.let("srun", "trap 'exit 130' USR1\n" + kHang);
  StepLauncher launcher(allocation(1, 4), kEndless);
  LaunchRequest request = slurm.request(7, "lab", 4);
  request.time_limit = 0s;
  launcher.start(request);
  CHECK(wait_for_one(launcher).outcome == LaunchOutcome::kTimeLimit);
}

TEST_CASE("an allocation has room for steps on the nodes that others leave") {
  const FakeSrun slurm;
  slurm.let("srun", kHang);
  Allocation job = allocation(2, 4, 4);
  SECTION("one after another unless told otherwise") {
    StepLauncher launcher(job, kShort);
    CHECK(launcher.has_room(8, true));
    launcher.start(slurm.request(1, "one", 1));
    CHECK_FALSE(launcher.has_room(1, true));
  }
  SECTION("side by side where there are GPUs") {
    job.slurm.max_parallel = 4;
    StepLauncher launcher(job, kShort);
    launcher.start(slurm.request(1, "one", 2, true));
    CHECK(launcher.has_room(2, true));
    CHECK(launcher.has_room(4, true));        // on the other node
    CHECK_FALSE(launcher.has_room(8, true));  // needs both nodes
    launcher.start(slurm.request(2, "two", 4, true));
    CHECK(launcher.has_room(2, true));
    CHECK_FALSE(launcher.has_room(4, true));
  }
  SECTION("never more than max_parallel") {
    job.slurm.max_parallel = 2;
    StepLauncher launcher(job, kShort);
    launcher.start(slurm.request(1, "one", 2));
    CHECK(launcher.has_room(2, false));
    launcher.start(slurm.request(2, "two", 2));
    CHECK_FALSE(launcher.has_room(2, false));
  }
}

TEST_CASE("a run that is larger than the job says so") {
  const FakeSrun slurm;
  Allocation job = allocation(2, 2, 2);
  job.size.nodes = 1;
  StepLauncher launcher(job, kShort);
  const LaunchRequest request = slurm.request(1, "one", 4, true);
  CHECK_THROWS_AS(launcher.start(request), ConfigError);
  CHECK_THROWS_WITH(launcher.start(request), Contains("the job has 1"));
}
