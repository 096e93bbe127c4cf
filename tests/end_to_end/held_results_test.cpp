#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "runner/store/database.h"
#include "tests/end_to_end/stub_runs.h"

// Sweeps whose results cannot be written for a while.
namespace fsdp {
namespace {

using Catch::Matchers::Contains;

// A reader like `sqlite3 results.sqlite 'select ...' | less`. Nobody can write until end() is
// called. This process must not open the file meanwhile: closing it would release the lock.
class PausedReader {
 public:
  explicit PausedReader(const Workplace& workplace)
      : database_(workplace.results() / "results.sqlite") {
    database_.execute("begin; select count(*) from runs");
  }
  void end() { database_.execute("commit"); }

 private:
  Database database_;
};

void touch(const std::filesystem::path& file) { std::ofstream(file) << '\n'; }

void check_all_finished_once(const Workplace& workplace) {
  for (const ComparisonRow& row : rows(workplace)) {
    CHECK(row.status == RunStatus::kFinished);
    CHECK(row.attempt == 1);
    CHECK(row.steps == 5);
  }
}

TEST_CASE("runs begin and end while a reader holds the database, and are recorded afterwards") {
  const Workplace workplace(kTwoPoints);
  Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                 {{"STUB_RULES", "point=first,step=3,await=go"}});
  runner.wait_for_error_text("first: started");
  std::vector<pid_t> ranks;
  REQUIRE(soon([&] { return (ranks = workplace.reported_processes()).size() == 3; }));
  PausedReader reader(workplace);
  touch(workplace / "go");
  for (const pid_t process : ranks) CHECK(gone_soon(process));
  runner.wait_for_error_text("second: finished");
  SECTION("by the same runner") {
    reader.end();
    const Ended ended = runner.wait();
    INFO(ended.errors);
    CHECK(ended.status == 0);
  }
  SECTION("by the next command, if the reader stays") {
    const Ended ended = runner.wait();
    CHECK(ended.status == 0);
    CHECK_THAT(ended.errors, Contains("the table lacks the newest results") &&
                                 Contains("results.sqlite: database is locked; another program"));
    reader.end();
  }
  SECTION("by the next one, if it is killed") {
    runner.send(SIGKILL);
    runner.wait();
    reader.end();
    const Ended next = workplace.run();
    INFO(next.errors);
    CHECK(next.status == 0);
    CHECK_THAT(next.errors, Contains("2 runs with a result already"));
  }
  check_all_finished_once(workplace);
}

TEST_CASE("a doubling search goes on while a reader holds the database") {
  const Workplace workplace(
      "  - {name: only}\nsweep: {double: {batch.size_per_rank: {from: 1, refine: true}}}\n",
      "{device: cpu, train.steps: 5, memory_limit_gib: 1, data.train: " + few_games() + "}");
  // Another experiment finds that 6 does not fit.
  std::ofstream(workplace / "other.yaml")
      << "experiment: other\nbase: {device: cpu, train.steps: 5, memory_limit_gib: 1, data.train: "
      << few_games()
      << "}\npoints: [{name: only}]\nsweep: {double: {batch.size_per_rank: {from: 6}}}\n";
  const std::string no_room = "batch_above=4,out_of_memory=no room";
  CHECK(workplace.run({"other.yaml"}, {{"STUB_RULES", no_room}}).status == 0);
  Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                 {{"STUB_RULES", "step=3,await=go; " + no_room}});
  runner.wait_for_error_text("size_per_rank=1: started");
  REQUIRE(soon([&] { return workplace.reported_processes().size() == 2; }));
  PausedReader reader(workplace);
  touch(workplace / "go");
  SECTION("of the runner that ends meanwhile") {
    const Ended ended = runner.wait();
    INFO(ended.errors);
    CHECK(ended.status == 0);
    CHECK_THAT(ended.errors, Contains("size_per_rank=6: not launched"));
    reader.end();
  }
  SECTION("of a runner that is killed later") {
    runner.wait_for_error_text("size_per_rank=5: started");
    runner.send(SIGKILL);
    runner.wait();
    reader.end();
    CHECK(workplace.run({"experiment.yaml"}, {{"STUB_RULES", no_room}}).status == 0);
  }
  std::map<int64_t, RunStatus> statuses;
  for (const ComparisonRow& row :
       Store(workplace.results(), StoreUse::kExisting).comparison("trial")) {
    statuses[row.spec.batch.size_per_rank] = row.status;
  }
  using enum RunStatus;
  CHECK(statuses == std::map<int64_t, RunStatus>{{1, kFinished},
                                                 {2, kFinished},
                                                 {4, kFinished},
                                                 {5, kOutOfMemory},
                                                 {6, kOutOfMemory},
                                                 {8, kOutOfMemory}});
}

TEST_CASE("Ctrl-C stops ranks though a reader holds the database; the next call records it") {
  const Workplace workplace(kTwoPoints);
  Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                 {{"STUB_RULES", "rank=0,step=3,spawn=marker; step=3,await=nothing"}});
  first_line_of(workplace / "marker");
  const std::vector<pid_t> ranks = workplace.reported_processes();
  PausedReader reader(workplace);
  runner.send(SIGINT);
  for (const pid_t process : ranks) CHECK(gone_soon(process));
  const Ended ended = runner.wait();
  CHECK(ended.status == 130);
  CHECK_THAT(ended.errors, Contains("database is locked"));
  reader.end();
  CHECK(workplace.run().status == 0);
  Database database(workplace.results() / "results.sqlite");
  CHECK(Statement(database,
                  "select status || ': ' || reason from attempts where attempt = 1 "
                  "order by run limit 1")
            .value<std::string>() == "interrupted: asked to stop, after step 2");
  CHECK(rows(workplace)[0].attempt == 2);
  CHECK(rows(workplace)[0].status == RunStatus::kFinished);
}

TEST_CASE("a results folder that is moved away and back is not made anew, and loses nothing") {
  const Workplace workplace(kTwoPoints);
  Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                 {{"STUB_RULES", "point=first,step=3,await=go"}});
  runner.wait_for_error_text("first: started");
  REQUIRE(soon([&] { return workplace.reported_processes().size() == 3; }));
  std::filesystem::rename(workplace.results(), workplace / "away");
  touch(workplace / "go");
  runner.wait_for_error_text("no longer where it was; put");
  CHECK_FALSE(std::filesystem::exists(workplace.results()));
  std::filesystem::rename(workplace / "away", workplace.results());
  const Ended ended = runner.wait();
  INFO(ended.errors);
  CHECK(ended.status == 0);
  check_all_finished_once(workplace);
}

TEST_CASE(
    "a run that ended under a lock keeps all its steps if its folder is away when it is read") {
  const Workplace workplace("  - {name: only}\n");
  Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                 {{"STUB_RULES", "step=2,await=go; step=4,await=end"}});
  runner.wait_for_error_text("only: started");
  REQUIRE(soon([&] { return workplace.reported_processes().size() == 1; }));
  const std::filesystem::path events =
      workplace.results() / rows(workplace)[0].folder / "attempt-1/events.rank0.jsonl";
  PausedReader reader(workplace);
  touch(workplace / "go");
  REQUIRE(soon([&] { return text_of(events).find("\"step\":3") != std::string::npos; }));
  touch(workplace / "end");
  runner.wait_for_error_text("only: finished");
  std::filesystem::rename(workplace.results(), workplace / "away");
  runner.wait();
  reader.end();
  std::filesystem::rename(workplace / "away", workplace.results());
  check_all_finished_once(workplace);
}

TEST_CASE("runs whose database was lost during the sweep are recorded from their files") {
  const Workplace workplace("  - {name: first}\n  - {name: second}\n");
  const std::filesystem::path database = workplace.results() / "results.sqlite";
  Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                 {{"STUB_RULES", "point=second,step=3,await=go"}});
  runner.wait_for_error_text("second: started");
  const bool is_emptied = GENERATE(false, true);
  is_emptied ? std::filesystem::resize_file(database, 0) : void(std::filesystem::remove(database));
  touch(workplace / "go");
  const Ended ended = runner.wait();
  INFO(ended.errors);
  CHECK(ended.status == 0);
  check_all_finished_once(workplace);
  const Ended next = workplace.run();
  INFO(next.errors);
  CHECK(next.status == 0);
  CHECK_THAT(next.errors, Contains("2 runs with a result already"));
}

TEST_CASE("prune records attempts that are only in files before it says what is old") {
  const Workplace workplace("  - {name: only}\n");
  CHECK(workplace.run().status == 0);
  Database(workplace.results() / "results.sqlite")
      .execute("update attempts set started_unix_ms = started_unix_ms - 40 * 86400000");
  Program runner(workplace / ".", workplace.command({"experiment.yaml", "--rerun"}),
                 {{"STUB_RULES", "step=3,await=go"}});
  runner.wait_for_error_text("only: started");
  std::optional<PausedReader> reader(std::in_place, workplace);
  touch(workplace / "go");
  runner.wait_for_error_text("only: finished");
  runner.send(SIGKILL);
  runner.wait();
  reader->end();
  reader.reset();
  const Ended pruned = workplace.call({"prune", "--older-than", "30d", "--yes"});
  CHECK(pruned.output == "nothing to remove\n");
  CHECK(rows(workplace)[0].attempt == 2);
}

}  // namespace
}  // namespace fsdp
