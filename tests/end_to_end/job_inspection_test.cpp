#include <catch2/catch.hpp>
#include <fstream>

#include "runner/run/locks.h"
#include "tests/end_to_end/program.h"
#include "tests/runner/store/store_fixture.h"

// fsdp-run status, logs and explain of runs in jobs of Slurm, from results as a job leaves them.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

// Slurm's programs are not on this PATH.
const Variables kNoSlurm{{"PATH", "/nowhere"}};

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::app);
  stream << text << std::flush;
}

// A run of the experiment "lab" in task 3 of job 12.
class SubmittedRun {
 public:
  SubmittedRun() {
    const std::vector runs{planned_run("point", 1)};
    run_ = store_.plan(experiment("lab"), runs).front();
    JobRecord job;
    job.experiment = "lab";
    job.token = "t0ken";
    job.slurm_job = "12";
    job.mode = "per_run";
    job.folder = "slurm/lab-t0ken";
    job.tasks = {task_};
    job.tasks[0].run = run_.id;
    job_ = store_.record_job(job);
    store_.record_status(run_.id, RunStatus::kQueued, "");
    update("PENDING", "Resources", "");
  }

  Store& store() { return store_; }
  int64_t id() const { return run_.id; }

  void update(const std::string& state, const std::string& reason, const std::string& node_list) {
    task_.run = run_.id;
    task_.state = state;
    task_.reason = reason;
    task_.node_list = node_list;
    store_.update_task(job_, task_);
  }

  void end_job() {
    task_.run = run_.id;
    task_.over = true;
    store_.update_task(job_, task_);
  }

  // Begins the attempt in its folder, as the job does. The store does not know it.
  void begin_in_folder(int attempt) const {
    write_text(folder(attempt) / "launch.json",
               R"({"job": "12_3", "node_list": "n1", "host": "n1", "started_unix_ms": 1000})");
  }
  void end_in_folder(int attempt) const { write_text(folder(attempt) / "end.json", "{}"); }
  void log(int attempt, const std::string& text) const {
    write_text(folder(attempt) / "rank0.log", text);
  }

  int begin(const std::string& node) {
    AttemptStart start = attempt_start();
    start.host = node;
    start.slurm_job = "12_3";
    start.node_list = node;
    return store_.begin_attempt(run_.id, start);
  }

  std::vector<std::string> command(const std::vector<std::string>& arguments) const {
    std::vector<std::string> words{FSDP_RUN_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--results", results_.path().string()});
    return words;
  }
  Ended call(const std::vector<std::string>& arguments, Variables environment = kNoSlurm) const {
    return Program(results_.path(), command(arguments), environment).wait();
  }
  std::filesystem::path path() const { return results_.path(); }

 private:
  std::filesystem::path folder(int attempt) const {
    return results_.path() / run_.folder / ("attempt-" + std::to_string(attempt));
  }

  ResultsFolder results_;
  Store store_{results_.path()};
  RunRecord run_;
  int64_t job_ = 0;
  JobTask task_{.task = 3};
};

}  // namespace

TEST_CASE("logs of a run that waits names its job, why it waits and the job's own output") {
  SubmittedRun run;
  const Ended waits = run.call({"logs", "point"});
  CHECK(waits.status == 2);
  CHECK_THAT(waits.errors, Contains("waits in job 12_3, PENDING (Resources)") &&
                               Contains("slurm/lab-t0ken/12_3.out"));
  run.end_job();
  run.store().record_status(run.id(), RunStatus::kCancelled, "cancelled while it waited");
  const Ended over = run.call({"logs", "point"});
  CHECK(over.status == 2);
  CHECK_THAT(over.errors, Contains("no attempt started in job 12_3") &&
                              Contains("cancelled while it waited") && Contains("12_3.out"));
}

TEST_CASE("logs --follow ends with the attempt, which only its folder knows") {
  SubmittedRun run;
  run.begin_in_folder(1);
  run.log(1, "first\n");
  Program logs(run.path(), run.command({"logs", "point", "--follow"}), kNoSlurm);
  CHECK(first_line_of(logs.output()) == "first");
  run.log(1, "rest\n");
  run.end_in_folder(1);
  const Ended ended = logs.wait();
  CHECK(ended.status == 0);
  CHECK(ended.output == "first\nrest\n");
  CHECK_THAT(ended.errors, Contains("attempt-1/rank0.log"));
}

TEST_CASE("logs of the newest attempt are there before anybody imports it") {
  SubmittedRun run;
  run.begin("n1");
  run.log(1, "old\n");
  run.begin_in_folder(2);
  run.log(2, "new\n");
  CHECK(run.call({"logs", "point"}).output == "new\n");
  CHECK(run.call({"logs", "point", "--attempt", "1"}).output == "old\n");
  CHECK_THAT(run.call({"logs", "point", "--attempt", "3"}).errors, Contains("allowed: 1, 2"));
}

TEST_CASE("status, called again and again, leaves Slurm alone for a while; report asks") {
  SubmittedRun run;
  write_text(run.path() / "slurm/.folder", "");
  const std::string remark = "cannot ask Slurm about open jobs";
  CHECK_THAT(run.call({"status"}).errors, Contains(remark));
  CHECK_THAT(run.call({"status"}).errors, !Contains(remark));
  CHECK_THAT(run.call({"report"}).errors, Contains(remark));
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::minutes(1);
  for (const char* stamp : {"slurm/read", "slurm/asked"}) {
    std::filesystem::last_write_time(run.path() / stamp, long_ago);
  }
  CHECK_THAT(run.call({"status"}).errors, Contains(remark));
}

TEST_CASE("cancel names the runner that would submit what a limit holds back") {
  SubmittedRun run;
  const std::vector planned{planned_run("point", 1), planned_run("held back", 1, "2")};
  run.store().plan(experiment("lab"), planned);
  for (const char* program : {"scancel", "squeue", "sacct", "scontrol"}) {
    const std::filesystem::path file = run.path() / "bin" / program;
    write_text(file,
               "#!/bin/sh\ntouch \"$(dirname \"$0\")/../called_$(basename \"$0\")\"\n"
               "[ \"$*\" != 'show config' ] || echo 'MaxArraySize = 1001'\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  const Variables slurm{{"PATH", (run.path() / "bin").string() + ":/usr/bin:/bin"}};
  const auto say = [](const std::string& line) { FAIL(line); };
  const ExperimentLock runner(run.path(), "lab", say);
  Program cancel(run.path(), run.command({"cancel", "lab"}), slurm);
  REQUIRE(soon([&] { return std::filesystem::exists(run.path() / "called_scancel"); }));
  run.store().record_status(run.id(), RunStatus::kCancelled, "");
  run.end_job();
  const Ended ended = cancel.wait();
  CHECK(ended.status == 0);
  CHECK_THAT(ended.output, Contains("cancelled job 12_3: 1 (lab/point") &&
                               Contains("is at work on 'lab': interrupt that one"));
}

TEST_CASE("cancel tells what Slurm refuses to end, and does not take it for cancelled") {
  SubmittedRun run;
  const auto program = [&](const char* name, const std::string& lines) {
    write_text(run.path() / "bin" / name, "#!/bin/sh\n" + lines);
    std::filesystem::permissions(run.path() / "bin" / name, std::filesystem::perms::owner_all);
  };
  program("squeue", "echo '12_3|PENDING|1:00||Resources'\n");
  program("scontrol", "echo 'MaxArraySize = 1001'\n");
  const std::string words = "Kill job error on job id 12: Access/permission denied";
  program("scancel", "echo 'scancel: error: " + words + "' >&2; exit 210\n");
  const Ended ended =
      run.call({"cancel", "lab"}, {{"PATH", (run.path() / "bin").string() + ":/usr/bin:/bin"}});
  CHECK(ended.status == 1);
  CHECK_THAT(ended.errors, Contains("not cancelled: job 12_3: 1 (lab/point") && Contains(words));
  CHECK_THAT(ended.output, !Contains("cancelled job"));
  CHECK(run.store().run(run.id())->status == RunStatus::kQueued);
}

TEST_CASE("explain tells of the job and of every attempt in it") {
  SubmittedRun run;
  CHECK_THAT(run.call({"explain", "point", "--trainer", STUB_TRAINER_PROGRAM}).output,
             Contains("waits in job 12_3, PENDING (Resources)") && Contains("12_3.out") &&
                 Contains("no attempt was started"));
  run.begin("n1");
  run.store().end_attempt(run.id(), 1, RunStatus::kPreempted,
                          "another job took the nodes, after step 30", 2'000);
  run.update("RUNNING", "", "n2");
  run.begin("n2");
  RunStarted started;
  started.resumed_from_step = 30;
  run.store().ingest(run.id(), 2, 0, std::vector{event(0, 3'000, started)});
  const std::string explained =
      run.call({"explain", "point", "--trainer", STUB_TRAINER_PROGRAM}).output;
  CHECK_THAT(explained, Contains("runs in job 12_3 on n2") && Contains("on n1, job 12_3 on n1") &&
                            Contains("preempted 1970") && Contains("after step 30") &&
                            Contains("job 12_3 on n2, resumed from step 30, running"));
}
