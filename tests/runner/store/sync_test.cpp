#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "base/files/digest.h"
#include "base/text/json.h"
#include "runner/store/run_files.h"
#include "tests/runner/store/store_fixture.h"

// The index follows the files of a results folder, however it was lost.
namespace fsdp {
namespace {

using Catch::Matchers::Contains;
using std::filesystem::path;

std::vector<std::string> rows_of(const Store& store) {
  std::vector<std::string> rows;
  for (const ComparisonRow& row : store.comparison("")) {
    rows.push_back(JsonObject().add_fields(row).add("current", row.current).text());
  }
  for (const RankRow& row : store.comparison_per_rank("")) rows.push_back(json_text(row));
  for (const StatusRow& row : store.statuses("")) rows.push_back(json_text(row));
  return rows;
}

// A results folder with runs of all kinds, which their files alone describe.
struct Results {
  Results() {
    const auto planned = in_order({planned_run("finished", 2, "1"), planned_run("failed", 1, "2"),
                                   planned_run("queued", 1, "3"), planned_run("planned", 1, "4")});
    runs = store.plan(with_text("lab"), planned);
    store.plan(with_text("other"), std::vector{planned_run("elsewhere", 1, "5")});
    store.plan(with_text("lab"), std::vector(planned.begin(), planned.end() - 1));
    begin(runs[0], 1);
    report(runs[0], 1, 2);
    store.end_attempt(runs[0].id, 1, RunStatus::kFinished, "", 9'000);
    begin(runs[1], 1);
    report(runs[1], 1, 1);
    store.end_attempt(runs[1].id, 1, RunStatus::kFailed, "no luck", 9'000, 0);
    store.record_status(runs[2].id, RunStatus::kQueued, "");
    store.record_job({.experiment = "lab",
                      .token = "t0ken",
                      .slurm_job = "12",
                      .mode = "per_run",
                      .folder = "slurm/lab-t0ken",
                      .tasks = {{.task = 0, .run = runs[2].id, .state = "PENDING"}}});
  }

  static ExperimentRecord with_text(const std::string& name) {
    ExperimentRecord record = experiment(name);
    record.title = "The title of " + name;
    record.text = "text of " + name;
    record.text_digest = text_digest(record.text);
    return record;
  }
  RunPaths paths(const RunRecord& run) const { return RunPaths(folder.path() / run.folder); }
  void begin(const RunRecord& run, int attempt) {
    AttemptStart start = attempt_start();
    start.provenance.experiment_text_digest = text_digest("text of lab");
    store.begin_attempt(run.id, start, attempt);
  }
  void report(const RunRecord& run, int attempt, int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::ofstream file(paths(run).events(attempt, rank), std::ios::app);
      RunStarted started;
      started.steps_planned = 3;
      file << to_json_line(event(0, 500, started)) << '\n';
      for (const Event& step : step_events(1, 3)) file << to_json_line(step) << '\n';
      file << to_json_line(event(4, 8'000, RunFinished{.steps = 3})) << '\n';
    }
    store.sync({run.folder});
  }

  ResultsFolder folder;
  Store store{folder.path()};
  std::vector<RunRecord> runs;
};

TEST_CASE("an index that is lost is made anew, row by row") {
  Results results;
  const std::vector<std::string> before = rows_of(results.store);
  REQUIRE(before.size() == 4 + 5 + 4);
  const path index = results.folder.database();
  const auto lose = GENERATE(values<std::function<void(const path&)>>(
      {[](const path& file) { std::filesystem::remove(file); },
       [](const path& file) { std::ofstream(file, std::ios::trunc); },
       [](const path& file) { std::ofstream(file) << "not a database, and not short either"; },
       [](const path& file) { std::filesystem::resize_file(file, 5'000); },
       [](const path& file) { Database(file).execute("pragma user_version = 99"); },
       [](const path& file) { Database(file).execute("drop table steps"); },
       [](const path& file) {
         std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
         stream.seekp(4096);
         stream << std::string(8 * 4096, '\x55');
       }}));
  lose(index);
  Store again(results.folder.path(), StoreUse::kExisting);
  again.sync();
  CHECK(rows_of(again) == before);
  CHECK(again.experiment_text(results.runs[0].id, 1) == "text of lab");
  CHECK(again.jobs_of_run(results.runs[2].id).at(0).slurm_job == "12");
  CHECK(again.runs().size() == 5);
}

TEST_CASE("a store whose index was deleted goes on with a new one") {
  Results results;
  const std::vector<std::string> before = rows_of(results.store);
  std::filesystem::remove(results.folder.database());
  results.store.sync();
  CHECK(rows_of(results.store) == before);
  CHECK(std::filesystem::exists(results.folder.database()));
}

TEST_CASE("what another process wrote is seen by the next sync, and nothing changes after it") {
  Results results;
  Store reader(results.folder.path());
  const RunRecord& run = results.runs[2];
  results.begin(run, 1);
  std::ofstream(results.paths(run).events(1, 0))
      << to_json_line(event(0, 500, RunStarted())) << '\n'
      << to_json_line(step_events(1, 1)[0]) << '\n';
  reader.sync();
  CHECK(reader.run(run.id)->status == RunStatus::kRunning);
  CHECK(reader.newest_steps(run.id, 1, 0, 9).size() == 1);
  std::ofstream(results.paths(run).events(1, 0), std::ios::app)
      << to_json_line(step_events(2, 2)[0]) << '\n';
  write_verdict(results.paths(run), 1, {.status = RunStatus::kInterrupted, .reason = "stopped"});
  reader.sync();
  CHECK(reader.newest_steps(run.id, 1, 0, 9).size() == 2);
  CHECK(reader.run(run.id)->status == RunStatus::kInterrupted);
  write_verdict(results.paths(run), 1, {.status = RunStatus::kOutOfMemory});  // judged anew
  reader.sync();
  CHECK(reader.run(run.id)->status == RunStatus::kOutOfMemory);
}

TEST_CASE("a run whose events were cut after its verdict is not finished") {
  Results results;
  const path events = results.paths(results.runs[0]).events(1, 1);
  const std::string text = read_input_file(events, 99'999);
  std::filesystem::resize_file(events, GENERATE_COPY(text.size() - 10, size_t{0}));
  std::filesystem::remove(results.folder.database());
  results.store.sync();
  const RunRecord run = results.store.run(results.runs[0].id).value();
  CHECK(run.status == RunStatus::kFailed);
  CHECK(run.reason == "finished, but the events of its ranks are no longer whole");
  std::ofstream(events) << text;
  results.store.sync();
  CHECK(results.store.run(run.id)->status == RunStatus::kFinished);
}

TEST_CASE("a run's folder that was moved is the run, and a copy of it is not") {
  Results results;
  const std::vector<std::string> before = rows_of(results.store);
  const path folder = results.folder.path() / results.runs[0].folder;
  std::vector<std::string> warnings;
  results.store.tell_of_files([&](const std::string& line) { warnings.push_back(line); });
  std::filesystem::copy(folder, folder.string() + "-copy",
                        std::filesystem::copy_options::recursive);
  results.store.sync();
  CHECK(rows_of(results.store) == before);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("-copy: left out") && Contains("holds the same run"));
  std::filesystem::remove_all(folder.string() + "-copy");
  std::filesystem::rename(folder, folder.string() + "-moved");
  results.store.sync();
  CHECK(results.store.run(results.runs[0].id)->status == RunStatus::kFinished);
  CHECK(results.store.run(results.runs[0].id)->folder ==
        results.runs[0].folder.string() + "-moved");
  std::filesystem::remove_all(folder.string() + "-moved");
  results.store.sync();
  CHECK_FALSE(results.store.run(results.runs[0].id));
}

TEST_CASE("a job whose file could not be read once was forgotten, and its runs submitted again") {
  Results results;
  const path file = results.folder.path() / "slurm/lab-t0ken/job.json";
  const std::string text = read_input_file(file, 9'999);
  std::ofstream(file) << "{";
  results.store.sync();
  CHECK(results.store.open_jobs("lab").size() == 1);
  std::filesystem::remove(file);
  results.store.sync();
  CHECK(results.store.open_jobs("lab").empty());
  std::ofstream(file) << text;
  results.store.sync();
  CHECK(results.store.open_jobs("lab").size() == 1);
}

TEST_CASE("a job that names a run that is not there hid all later news") {
  Results results;
  JobRecord job = results.store.open_jobs("lab").at(0);
  job.id = 9;
  job.token = "other";
  job.folder = "slurm/lab-other";
  job.tasks.at(0).run = 999;
  write_job(results.folder.path(), job);
  results.store.sync();
  CHECK(results.store.open_jobs("lab").size() == 1);
}

TEST_CASE("a file that fsdp-run did not write is left out and named") {
  Results results;
  const path run = results.folder.path() / results.runs[3].folder;
  const auto [file, text] = GENERATE(table<std::string, std::string>(
      {{"run.json", "{"},
       {"run.json", R"({"id": 9})"},
       {"status.json", R"({"status": "happy", "reason": "", "attempts_begun": 0})"},
       {"attempt-1/launch.json", R"({"host": 3})"}}));
  std::filesystem::create_directories(run / "attempt-1");
  std::ofstream(run / file) << text;
  std::vector<std::string> warnings;
  results.store.tell_of_files([&](const std::string& line) { warnings.push_back(line); });
  results.store.sync();
  REQUIRE_FALSE(warnings.empty());
  CHECK_THAT(warnings[0], Contains((run / file).string()) && Contains("left out"));
  CHECK(results.store.run(results.runs[3].id)->status == RunStatus::kPlanned);
}

}  // namespace
}  // namespace fsdp
