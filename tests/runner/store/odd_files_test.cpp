#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>

#include "base/files/digest.h"
#include "tests/runner/store/store_fixture.h"

// The index follows whatever happens to the files of runs.
namespace fsdp {
namespace {

using std::filesystem::path;

RunRecord with_folder(RunRecord run, const path& folder) {
  run.folder = folder;
  return run;
}

JobRecord job_of(const RunRecord& run) {
  return {.experiment = run.experiment,
          .token = "token",
          .slurm_job = "7",
          .mode = "per_run",
          .folder = "slurm/job",
          .tasks = {{.task = 0, .run = run.id, .state = "PENDING"}}};
}

// Returns "point: folder, status, attempts" of each run.
std::vector<std::string> described(const Store& store) {
  std::vector<std::string> runs;
  for (const RunRecord& run : store.runs()) {
    runs.push_back(fmt::format("{}: {}, {}, {}{}", run.point, run.folder.string(),
                               name_of(run.status), store.attempts(run.id).size(),
                               run.current ? "" : ", not current"));
  }
  return runs;
}

// Returns the runs of an index that is made from the files alone.
std::vector<std::string> rebuilt(const ResultsFolder& results) {
  const ResultsFolder copy;
  std::filesystem::copy(results.path(), copy.path(), std::filesystem::copy_options::recursive);
  std::filesystem::remove(copy.database());
  return described(Store(copy.path(), StoreUse::kExisting));
}

void set_time(const path& place, int64_t unix_s) {
  const timespec times[] = {{.tv_sec = unix_s, .tv_nsec = 0}, {.tv_sec = unix_s, .tv_nsec = 0}};
  REQUIRE(utimensat(AT_FDCWD, place.c_str(), times, 0) == 0);
}

std::string text_of(const path& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// Writes into the file, and not a new one: its folder keeps its time.
void overwrite(const path& file, const std::string& text) { std::ofstream(file) << text; }

const std::vector<std::string> kTwo{"one: runs/lab/one, finished, 1",
                                    "two: runs/lab/two, planned, 0"};

}  // namespace

TEST_CASE_METHOD(StoreTest, "a folder that changes while it is read is read again") {
  const std::vector<RunRecord> runs = plan_two(store);
  const path folder = results.path() / runs[0].folder;
  overwrite(folder / "status.json", "no JSON");
  bool has_warned = false;
  store.tell_of_files([&](const std::string&) {  // the attempts are read by now
    if (std::exchange(has_warned, true)) return;
    std::filesystem::create_directory(folder / "attempt-2");
    write_record(folder / "attempt-2/launch.json", attempt_start(3'000));
    set_time(folder, 1'000);
  });
  store.sync();
  REQUIRE(has_warned);
  store.sync();
  CHECK(store.attempts(runs[0].id).size() == 2);
}

TEST_CASE_METHOD(StoreTest, "a run that is renamed keeps its attempts") {
  plan_two(store);
  std::filesystem::rename(results / "runs/lab/one", results / "runs/lab/renamed");
  store.sync();
  CHECK(described(store) == rebuilt(results));
  CHECK(store.run(1)->folder == "runs/lab/renamed");
  CHECK(store.attempts(1).size() == 1);
}

TEST_CASE_METHOD(StoreTest, "a run that a killed prune has renamed does not come back") {
  plan_two(store);
  std::filesystem::rename(results / "runs/lab/one", results / "runs/lab/.one.pruned");
  store.sync();
  CHECK(described(store) == std::vector{kTwo[1]});
  CHECK(rebuilt(results) == std::vector{kTwo[1]});
}

TEST_CASE_METHOD(StoreTest, "a copy of a run is left out, and takes its place when it is gone") {
  plan_two(store);
  const auto recursive = std::filesystem::copy_options::recursive;
  const std::string name = GENERATE("a copy", "one copy");
  std::filesystem::copy(results / "runs/lab/one", results / ("runs/lab/" + name), recursive);
  std::filesystem::remove_all(results / ("runs/lab/" + name + "/attempt-1"));
  set_time(results / ("runs/lab/" + name), 1'000);
  store.sync();
  CHECK(described(store) == kTwo);
  CHECK(rebuilt(results) == kTwo);
  std::filesystem::remove_all(results / "runs/lab/one");
  store.sync();
  store.sync();
  CHECK(described(store).size() == 2);
  CHECK(store.run(1)->folder == "runs/lab/" + name);
}

TEST_CASE_METHOD(StoreTest, "a run whose folder got another run's record is not there twice") {
  plan_two(store);
  std::filesystem::remove_all(results / "runs/lab/one");
  std::filesystem::rename(results / "runs/lab/two", results / "runs/lab/one");
  store.sync();
  CHECK(described(store) == rebuilt(results));
  CHECK(described(store).size() == 1);
}

TEST_CASE_METHOD(StoreTest, "a new attempt with the number of a deleted one takes its place") {
  const int64_t run = running_run(store, 1);
  const path folder = results / "runs/lab/point";
  const auto record = [&](const std::vector<Event>& events) {
    std::ofstream file(folder / "attempt-1/events.rank0.jsonl");
    for (const Event& event : events) file << to_json_line(event) << '\n';
  };
  record(step_events(1, 4));
  store.end_attempt(run, 1, RunStatus::kFinished, "", 2'000);
  REQUIRE(store.newest_steps(run, 1, 0, 9).size() == 4);
  std::filesystem::remove_all(folder / "attempt-1");
  std::filesystem::create_directory(folder / "attempt-1");
  write_record(folder / "attempt-1/launch.json", attempt_start(5'000));
  record(step_events(1, 2));
  write_verdict(RunPaths(folder), 1, {.status = RunStatus::kFailed, .ended_unix_ms = 6'000});
  store.sync();
  CHECK(store.attempts(run).front().started_unix_ms == 5'000);
  CHECK(store.newest_steps(run, 1, 0, 9).size() == 2);
}

TEST_CASE_METHOD(StoreTest, "a run whose attempts were deleted was still shown as finished") {
  plan_two(store);
  std::filesystem::remove_all(results / "runs/lab/one/attempt-1");
  if (GENERATE(false, true)) overwrite(results / "runs/lab/one/attempt-1", "no folder");
  store.sync();
  CHECK(described(store) == rebuilt(results));
  CHECK(described(store).front() == "one: runs/lab/one, planned, 0");
}

TEST_CASE_METHOD(StoreTest, "a run whose run.json was deleted was still shown") {
  plan_two(store);
  std::filesystem::remove(results / "runs/lab/one/run.json");
  store.sync();
  CHECK(described(store) == rebuilt(results));
  CHECK(described(store) == std::vector{kTwo[1]});
}

TEST_CASE_METHOD(StoreTest, "a run that takes the number of a pruned one gets this number") {
  plan_two(store);
  const path older = results.write("older", text_of(results.database()));
  std::filesystem::remove_all(results / "runs/lab/two");
  store.sync();
  const std::vector more{planned_run("one", 1), planned_run("three", 1, "third")};
  const int64_t id = store.plan(experiment("lab"), in_order(more))[1].id;
  std::filesystem::rename(older, results.database());
  store.sync();
  CHECK(store.recorded_run("lab", "three", "third")->id == id);
}

TEST_CASE_METHOD(StoreTest, "numbers beyond reason in run.json do not end the numbering") {
  const std::vector<RunRecord> runs = plan_two(store);
  const std::string number =
      GENERATE("-5", "0", "4611686018427387904", "9223372036854775807", "1e300", "true");
  const path file = results.path() / runs[1].folder / "run.json";
  std::string text = text_of(file);
  text.replace(text.find("\"id\":2"), 6, "\"id\":" + number);
  overwrite(file, text);
  std::filesystem::remove(results.database());
  store.sync();
  const std::vector more{planned_run("three", 1, "third")};
  const int64_t id = store.plan(experiment("more"), in_order(more)).front().id;
  CHECK((id > 0 && id < 100));
}

TEST_CASE_METHOD(StoreTest, "the copy of a list, or a list under another name, says nothing") {
  const std::vector<RunRecord> runs = plan_two(store);
  std::filesystem::copy_file(results / "lists/lab.json", results / "lists/another.json");
  store.plan(experiment("lab"), in_order({planned_run("one", 1)}));
  overwrite(results / "lists/another.json", text_of(results / "lists/another.json") + ' ');
  store.sync();
  CHECK_FALSE(store.run(runs[1].id)->current);
  CHECK(described(store) == rebuilt(results));
}

TEST_CASE_METHOD(StoreTest, "a list that could not be read is read again") {
  plan_two(store);
  const path file = results / "lists/lab.json";
  const std::string text = text_of(file);
  overwrite(file, std::string(text.size(), ' '));
  set_time(file, 1'000);
  std::filesystem::remove(results.database());
  store.sync();
  overwrite(file, text);
  set_time(file, 1'000);
  store.sync();
  CHECK(described(store) == kTwo);
}

TEST_CASE_METHOD(StoreTest, "a run that could not be read is read again") {
  plan_two(store);
  const path file = results / "runs/lab/two/run.json";
  const std::string text = text_of(file);
  overwrite(file, "no JSON");
  set_time(file.parent_path(), 1'000);
  std::filesystem::remove(results.database());
  store.sync();
  CHECK(store.runs().size() == 1);
  overwrite(file, text);
  store.sync();
  CHECK(described(store) == kTwo);
}

TEST_CASE_METHOD(StoreTest, "a verdict that cannot be read leaves the attempt as it was") {
  const std::vector<RunRecord> runs = plan_two(store);
  overwrite(results / "runs/lab/one/attempt-1/verdict.json", "no JSON");
  store.sync({runs[0].folder});
  CHECK(described(store) == kTwo);
}

TEST_CASE_METHOD(StoreTest, "a job whose file cannot be read stays open, and is read again") {
  const std::vector<RunRecord> runs = plan_two(store);
  store.record_job(job_of(runs[1]));
  const path file = results / "slurm/job/job.json";
  std::string text = text_of(file);
  overwrite(file, "no JSON");
  set_time(file.parent_path(), 1'000);
  store.sync();
  CHECK(store.open_jobs("lab").size() == 1);
  text.replace(text.find("PENDING"), 7, "RUNNING");
  overwrite(file, text);
  store.sync();
  CHECK(store.open_jobs("lab").front().tasks.front().state == "RUNNING");
}

TEST_CASE_METHOD(StoreTest, "an open job is still known when its run's folder comes back") {
  const std::vector<RunRecord> runs = plan_two(store);
  store.record_job(job_of(runs[1]));
  set_time(results / "slurm/job", 1'000);
  store.sync();
  std::filesystem::rename(results / "runs", results / "away");
  store.sync();
  CHECK(store.runs().empty());
  std::filesystem::rename(results / "away", results / "runs");
  store.sync();
  CHECK(described(store) == kTwo);
  REQUIRE(store.open_jobs("lab").size() == 1);
  CHECK(store.open_jobs("lab").front().tasks.front().run == runs[1].id);
}

TEST_CASE_METHOD(StoreTest, "a job with a pruned run does not keep the index from being made") {
  const std::vector<RunRecord> runs = plan_two(store);
  JobRecord job = job_of(runs[0]);
  job.tasks.push_back({.task = 1, .run = runs[1].id});
  for (JobTask& task : job.tasks) task.over = true;
  store.record_job(job);
  SECTION("pruned") {
    std::filesystem::remove_all(results.path() / runs[1].folder);
    store.forget_removed(runs[1]);
    CHECK(read_job(results.path(), "slurm/job", [](const std::string&) {})->tasks.size() == 1);
  }
  SECTION("deleted by hand") {}
  std::filesystem::remove_all(results.path() / runs[1].folder);
  std::filesystem::remove(results.database());
  store.sync();
  CHECK(store.jobs_of_run(runs[0].id).size() == 1);
  const std::vector more{planned_run("three", 1, "third")};
  const int64_t id = store.plan(experiment("more"), in_order(more)).front().id;
  store.sync();
  CHECK(store.jobs_of_run(id).empty());
}

TEST_CASE_METHOD(StoreTest, "a job file that names a folder elsewhere writes nothing there") {
  const std::vector<RunRecord> runs = plan_two(store);
  const int64_t job = store.record_job(job_of(runs[1]));
  const path file = results / "slurm/job/job.json";
  std::string text = text_of(file);
  text.replace(text.find("slurm/job"), 9, "../outside");
  overwrite(file, text);
  std::filesystem::remove(results.database());
  store.sync();
  store.set_slurm_job(job, "8");
  CHECK_FALSE(std::filesystem::exists(results.path() / "../outside"));
  CHECK(text_of(file).find("\"8\"") != std::string::npos);
}

TEST_CASE_METHOD(StoreTest, "a run of a merged experiment's name does not hide the others") {
  plan_two(store);
  const std::vector more{with_folder(planned_run("three", 1, "third"), "runs/more/three")};
  store.plan(experiment("more"), in_order(more));
  sqlite3(results, "update experiments set source = 'somebody' where name = 'more'");
  overwrite(results / "runs/more/three/run.json", text_of(results / "runs/more/three/run.json"));
  store.plan(experiment("last"), {});
  std::filesystem::create_directory(results / "runs/lab/one/attempt-2");
  write_record(results / "runs/lab/one/attempt-2/launch.json", attempt_start(3'000));
  CHECK_NOTHROW(store.sync());
  CHECK(store.attempts(1).size() == 2);
}

TEST_CASE_METHOD(StoreTest, "a pipe in place of events is not waited for, and hides no other run") {
  plan_two(store);
  REQUIRE(mkfifo((results / "runs/lab/one/attempt-1/events.rank0.jsonl").c_str(), 0600) == 0);
  std::filesystem::remove(results.database());
  store.sync();
  CHECK(described(store) == std::vector{kTwo[1]});
}

TEST_CASE_METHOD(StoreTest, "a text that was changed, or a digest that is a path, is not taken") {
  ExperimentRecord lab = experiment("lab");
  lab.text = "experiment: lab";
  lab.text_digest = text_digest(lab.text);
  store.plan(lab, in_order({planned_run("one", 1)}));
  SECTION("changed") {
    overwrite(results / ("texts/" + lab.text_digest + ".yaml"), "experiment: other");
  }
  SECTION("a path") {
    const ResultsFolder elsewhere;
    elsewhere.write("secret.yaml", "secret");
    std::string list = text_of(results / "lists/lab.json");
    list.replace(list.find(lab.text_digest), lab.text_digest.size(),
                 (elsewhere / "secret").string());
    overwrite(results / "lists/lab.json", list);
  }
  std::filesystem::remove(results.database());
  store.sync();
  CHECK(sqlite3(results, "select text from experiments") == "\"\"\n");
}

TEST_CASE_METHOD(StoreTest,
                 "results of an earlier version whose lists were half written are whole") {
  plan_two(store);
  const std::vector more{with_folder(planned_run("three", 1, "third"), "runs/more/three")};
  store.plan(experiment("more"), in_order(more));
  const std::vector<std::string> before = described(store);
  // The first call of this version was killed before the last list.
  std::filesystem::rename(results / "lists", results / "lists.partial");
  std::filesystem::remove(results / "lists.partial/more.json");
  store.sync();
  CHECK(rebuilt(results) == before);
}

}  // namespace fsdp
