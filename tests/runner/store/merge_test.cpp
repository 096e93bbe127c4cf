#include "runner/store/merge.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "base/files/digest.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

using Catch::Matchers::Contains;

// Plans two runs of `lab`. The first has an attempt with events of every kind.
int64_t fill(const ResultsFolder& results, int64_t steps = 3) {
  Store store(results.path());
  const int64_t run =
      store.plan(experiment("lab"), in_order({planned_run("one", 1), planned_run("two", 1)}))
          .front()
          .id;
  AttemptStart start = attempt_start();
  start.provenance.git_commit = "c0ffee";
  start.provenance.experiment_text_digest = "digest";
  const int attempt = store.begin_attempt(run, start);
  std::vector<Event> events{event(0, 1'000, RunStarted{})};
  for (int64_t step = 1; step <= steps; ++step) {
    events.push_back(event(step, 1'000 * step, step_done(step, 10)));
  }
  events.push_back(
      event(steps + 1, 5'000, EvaluationDone{.step = 1, .loss = 2, .token_accuracy = 0}));
  events.push_back(
      event(steps + 2, 5'000, CheckpointDone{.step = 1, .path = "checkpoints/step-1"}));
  events.push_back(event(steps + 3, 5'000, DeviceSample{}));
  events.push_back(event(steps + 4, 5'500, CpuUse{}));
  events.push_back(event(steps + 5, 5'600, MemoryPeak()));
  events.push_back(event(steps + 6, 6'000, RunFinished{.steps = steps}));
  store.ingest(run, attempt, 0, events);
  store.end_attempt(run, attempt, RunStatus::kFinished, "", 7'000);
  return run;
}

const std::vector<std::string> kTables{
    "experiments", "experiment_texts", "runs",           "attempts",  "ranks",    "steps",
    "evaluations", "checkpoints",      "device_samples", "summaries", "cpu_uses", "memory_peaks"};

std::map<std::string, int64_t> counts(const ResultsFolder& results) {
  std::map<std::string, int64_t> found;
  for (const std::string& table : kTables) found[table] = count(results, table);
  return found;
}

std::map<std::string, std::string> bytes_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    files[entry.path()] = std::string(std::istreambuf_iterator<char>(stream), {});
  }
  return files;
}

// The reason why the last of `sources` was skipped, or "".
std::string skipped(const ResultsFolder& results, const std::vector<MergeSource>& sources) {
  return merge_results(results.path(), sources).back().skipped;
}

TEST_CASE("everything that two people measured is in one database, and whose it is") {
  const ResultsFolder alice, bob, all;
  fill(alice);
  fill(bob, 5);
  const std::vector<MergeSource> sources{{"alice", alice.path()}, {"bob", bob.path()}};
  const std::vector<MergedSource> merged = merge_results(all.path(), sources);
  REQUIRE(merged.size() == 2);
  CHECK(merged[1].experiments == 1);
  CHECK(merged[1].runs == 2);
  CHECK(merged[1].new_runs == 2);
  for (const std::string& table : kTables) {
    if (table == "experiment_texts") continue;
    CAPTURE(table);
    CHECK(count(all, table) == count(alice, table) + count(bob, table));
  }
  Store store(all.path());
  const std::vector<ComparisonRow> rows = store.comparison("");
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].experiment == "alice/lab");
  CHECK(rows[0].source == "alice");
  CHECK(rows[0].steps == 3);
  CHECK(rows[0].git_commit == "c0ffee");
  CHECK(rows[0].status == RunStatus::kFinished);
  CHECK(rows[1].status == RunStatus::kPlanned);
  CHECK(rows[2].source == "bob");
  CHECK(rows[2].steps == 5);
  // The run's files stay in bob's folder.
  CHECK(std::filesystem::weakly_canonical(all.path() / rows[2].folder) ==
        std::filesystem::canonical(bob.path()) / "runs/lab/one");
  CHECK(store.spec_text(rows[2].run) == Store(bob.path()).spec_text(1));
  CHECK(store.events<StepDone>(rows[2].run, 1).size() == 5);
}

TEST_CASE("merging again adds nothing, keeps the runs' numbers, and takes over what is new") {
  const ResultsFolder alice, all;
  const int64_t run = fill(alice);
  const std::vector<MergeSource> sources{{"alice", alice.path()}};
  merge_results(all.path(), sources);
  const std::string before = sqlite3(all, ".dump");
  const std::vector<MergedSource> again = merge_results(all.path(), sources);
  CHECK(again[0].runs == 2);
  CHECK(again[0].new_runs == 0);
  CHECK(sqlite3(all, ".dump") == before);

  {
    Store store(alice.path());
    store.begin_attempt(run, attempt_start(9'000));
    store.ingest(run, 2, 0, std::vector{event(0, 1, RunStarted{}), event(1, 2, step_done(1, 20))});
    store.end_attempt(run, 2, RunStatus::kFinished, "", 9'500);
    store.plan(experiment("lab"), in_order({planned_run("one", 1), planned_run("three", 1)}));
  }
  CHECK(merge_results(all.path(), sources)[0].new_runs == 1);
  Store store(all.path());
  const std::vector<ComparisonRow> rows = store.comparison("alice/lab");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].run == 1);
  CHECK(rows[0].attempt == 2);
  CHECK(rows[0].step_time_ms_median == 20);
  CHECK(rows[1].point == "three");
  CHECK(store.runs().size() == 3);
}

TEST_CASE("what was pruned from a source leaves the lists when it is merged again") {
  const ResultsFolder alice, all;
  const int64_t run = fill(alice);
  const std::vector<MergeSource> sources{{"alice", alice.path()}};
  merge_results(all.path(), sources);
  REQUIRE(Store(alice.path()).delete_run(run));
  CHECK(merge_results(all.path(), sources)[0].skipped.empty());
  CHECK(Store(all.path()).comparison("alice/lab").size() == 1);
  REQUIRE(Store(alice.path()).delete_run(run + 1));
  CHECK(merge_results(all.path(), sources)[0].skipped.empty());
  CHECK(Store(all.path()).comparison("").empty());
}

TEST_CASE("sources stay as they are, also one that cannot be written") {
  const ResultsFolder alice, all;
  fill(alice);
  const auto before = bytes_in(alice.path());
  const auto read_only = std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec;
  std::filesystem::permissions(alice.database(), std::filesystem::perms::owner_read);
  std::filesystem::permissions(alice.path(), read_only);
  merge_results(all.path(), std::vector<MergeSource>{{"alice", alice.path()}});
  CHECK(bytes_in(alice.path()) == before);
  std::filesystem::permissions(alice.path(), std::filesystem::perms::owner_all);
  CHECK(count(all, "runs") == count(alice, "runs"));
  CHECK(count(all, "runs") > 0);
  CHECK(count(all, "steps") == count(alice, "steps"));
}

// The writer's pages are in the file and its journal is there, as after a power cut.
TEST_CASE("what a killed writer left half-written in a source is undone in the copy only") {
  const ResultsFolder alice, all;
  const int64_t run = fill(alice);
  const pid_t writer = fork();
  if (writer == 0) {
    Database database(alice.database());
    database.execute("pragma cache_size = 1; begin immediate");
    Statement insert(database,
                     "insert into device_samples (run, attempt, rank, sequence, time_unix_ms, "
                     "host, device, device_name) values (?, 1, 0, ?, 0, ?, '', '')");
    for (int64_t i = 0; i < 2'000; ++i) insert.run(run, 1'000 + i, std::string(200, 'x'));
    _exit(0);
  }
  REQUIRE(waitpid(writer, nullptr, 0) == writer);
  REQUIRE(std::filesystem::file_size(alice.database().string() + "-journal") > 0);
  const auto before = bytes_in(alice.path());
  merge_results(all.path(), std::vector<MergeSource>{{"alice", alice.path()}});
  CHECK(bytes_in(alice.path()) == before);
  CHECK(count(all, "device_samples") == 1);
}

TEST_CASE("a source with a write-ahead log is skipped, and no file is left beside it") {
  const ResultsFolder alice, all;
  fill(alice);
  Database(alice.database()).execute("pragma journal_mode = wal");
  std::filesystem::remove(alice.database().string() + "-journal");
  const auto before = bytes_in(alice.path());
  const std::vector<MergeSource> sources{{"alice", alice.path()}};
  CHECK_THAT(skipped(all, sources),
             Contains("write-ahead log") &&
                 Contains("fsdp-run report --results " + alice.path().string()));
  CHECK(bytes_in(alice.path()) == before);
  { const Store opened(alice.path()); }
  CHECK(merge_results(all.path(), sources).front().new_runs == 2);
}

TEST_CASE("a run is not merged twice, under another name or through others' merged results") {
  const ResultsFolder alice, of_class, of_school;
  fill(alice);
  const std::vector<MergeSource> of_alice{{"alice", alice.path()}};
  merge_results(of_class.path(), of_alice);
  merge_results(of_school.path(), of_alice);
  const auto before = counts(of_school);
  for (const MergeSource& again :
       {MergeSource{"bob", alice.path()}, MergeSource{"2026", of_class.path()}}) {
    CHECK_THAT(skipped(of_school, {again}),
               Contains("already, in 'alice/lab', and would have it twice"));
  }
  CHECK(counts(of_school) == before);
  const ResultsFolder together;
  CHECK_THAT(skipped(together, {{"alice", alice.path()}, {"bob", alice.path()}}),
             Contains("would have it twice"));
  CHECK(count(together, "runs") == 2);
}

TEST_CASE("a source that is torn, foreign, newer or empty is skipped, and the others are merged") {
  const ResultsFolder alice, other, carol, all;
  fill(alice);
  fill(carol, 5);
  std::string reason = other.database().string();
  SECTION("torn") {
    fill(other, 2'000);
    std::filesystem::resize_file(other.database(),
                                 std::filesystem::file_size(other.database()) / 2);
  }
  SECTION("not SQLite at all") {
    other.write("results.sqlite", std::string(5'000, 'x'));
    reason = "it is not a database of this program; move it away";
  }
  SECTION("foreign") {
    Database database(other.database());
    database.execute("create table runs (id integer); insert into runs values (1)");
    reason = "is not a database of fsdp-run 0.1.0 or later; move it away";
  }
  SECTION("of nobody, without a table") {
    Database(other.database()).execute("vacuum");
    reason = "is not a database of fsdp-run 0.1.0 or later; move it away";
  }
  SECTION("no bytes") {
    other.write("results.sqlite", "");
    reason = "is empty";
  }
  SECTION("no file") { reason = "there is no results.sqlite in " + other.path().string(); }
  SECTION("a folder") {
    std::filesystem::create_directory(other.database());
    reason = "is no file";
  }
  SECTION("no runs") {
    { const Store store(other.path()); }
    reason = "holds no runs";
  }
  SECTION("newer") {
    fill(other);
    Database(other.database()).execute("pragma user_version = 99");
    reason = "written by a newer fsdp-run; this one reads up to version";
  }
  SECTION("a row that cannot be read, found half-way") {
    fill(other);
    Database(other.database()).execute("update summaries set loss_last = 'low'");
    reason = "'low' as loss_last in its table summaries; allowed: -1e39 to 1e39";
  }
  SECTION("the database to merge into") {
    { const Store store(all.path()); }
    const auto link = other.path() / "link";
    std::filesystem::create_directory_symlink(all.path(), link);
    const auto merged = merge_results(
        all.path(), std::vector<MergeSource>{{"alice", alice.path()}, {"other", link}});
    CHECK_THAT(merged[1].skipped, Contains("is the database to merge into"));
    std::filesystem::remove(link);
    reason = "there is no results.sqlite";
  }
  const std::vector<MergeSource> sources{
      {"alice", alice.path()}, {"other", other.path()}, {"carol", carol.path()}};
  for (const int64_t is_first : {1, 0}) {
    const std::vector<MergedSource> merged = merge_results(all.path(), sources);
    CHECK(merged[0].skipped == "");
    CHECK(merged[2].skipped == "");
    CHECK(merged[2].runs == 2);
    CHECK(merged[2].new_runs == 2 * is_first);
    CHECK(merged[1].runs == 0);
    CHECK_THAT(merged[1].skipped, Contains(reason) && Contains(other.path().string()) &&
                                      !Contains("--results") && !Contains("\n"));
    for (const std::string& table : kTables) {
      if (table == "experiment_texts") continue;
      CAPTURE(table);
      CHECK(count(all, table) == count(alice, table) + count(carol, table));
    }
    CHECK(sqlite3(all, "select distinct source from experiments order by 1") == "alice\ncarol\n");
  }
}

TEST_CASE("where every source is skipped no database is made, and one that is there stays") {
  const ResultsFolder half, nothing, all;
  fill(half);
  Database(half.database()).execute("update summaries set loss_last = 'low'");
  const std::filesystem::path target = all.path() / "results";
  const std::vector<MergeSource> sources{{"half", half.path()}, {"nothing", nothing.path()}};
  for (const MergedSource& merged : merge_results(target, sources)) CHECK(merged.skipped != "");
  CHECK_FALSE(std::filesystem::exists(target));
  fill(all);
  const std::string before = sqlite3(all, ".dump");
  for (const MergedSource& merged : merge_results(all.path(), sources)) CHECK(merged.skipped != "");
  CHECK(sqlite3(all, ".dump") == before);
}

TEST_CASE("an experiment of the results' own is not overwritten by one that is merged") {
  const ResultsFolder alice, all;
  fill(alice);
  { Store(all.path()).plan(experiment("alice/lab"), {}); }
  CHECK_THAT(skipped(all, {{"alice", alice.path()}}),
             Contains("has an experiment 'alice/lab' of its own"));
}

// The reason to skip a source after `sql` was executed in its database.
std::string refusal_after(const std::string& sql) {
  const ResultsFolder eve, all;
  fill(eve);
  Database(eve.database()).execute("pragma foreign_keys = off;" + sql);
  const std::filesystem::path target = all.path() / "results";
  const std::string refusal =
      merge_results(target, std::vector<MergeSource>{{"eve", eve.path()}}).front().skipped;
  CHECK_THAT(refusal, Contains(eve.path().string()));
  CHECK_FALSE(std::filesystem::exists(target));
  return refusal;
}

TEST_CASE("a source that others have changed is refused by name") {
  struct Change {
    std::string sql;
    std::string refusal;
  };
  std::vector<Change> changes{
      {"drop table experiment_texts; create view experiment_texts as "
       "with recursive c(x) as (select 1 union all select x + 1 from c) "
       "select x as digest, x as text from c",
       "its 'experiment_texts' is another one than this fsdp-run's"},
      {"insert into experiment_texts values ('" + text_digest("mine") + "', 'yours')",
       "its text of the digest " + text_digest("mine")},
      {"create table other as select * from attempts; update other set run = 7;"
       "insert into attempts select * from other; drop table other",
       "rows of its table attempts refer to rows of runs that are not there"},
      {"delete from attempts", "refer to rows of attempts"},
      {"pragma legacy_alter_table = on; create table s as select * from summaries;"
       "drop table summaries; alter table s rename to summaries; update summaries set run = 7",
       "its table summaries names the run 7, which is not there"},
      {"update attempts set attempt = -1", "refer to rows"},
      {"update runs set status = 'perfect'", "'perfect' is not a known value"},
      {"update runs set spec = json_set(spec, '$.strategy.kind', 'magic')",
       "'strategy.kind': \"magic\""},
      {"update runs set spec = json_set(spec, '$.batch.total', -4)",
       "the specification of its run 1: 'batch.total': -4 is not a value"},
      {"update runs set spec = json_set(spec, '$.strategy.ranks', 4611686018427387904)", "ranks"},
      {"update attempts set status = 'perfect'", "'perfect'"},
      {"update ranks set end_kind = 'well'", "'well'"},
      {"update summaries set loss_last = 'low'", "'low' as loss_last in its table summaries"},
      {"update runs set family_value = 2.5", "2.5 as family_value in its table runs"},
      {"update attempts set host = x'00'", "as host in its table attempts; allowed: text"},
      {"update cpu_uses set cpu_time_ms = 'long'", "'long' as cpu_time_ms in its table cpu_uses"},
      {"alter table device_samples rename column host to hosts", "host"},
      {"drop view shown_attempts", "shown_attempts"},
  };
  for (const std::string folder :
       {"../../runs/lab/own", "/etc", "runs/../../own", "..", "runs/lab/../../../own"}) {
    changes.push_back({"update runs set folder = '" + folder + "' where id = 1",
                       "a run whose folder lies outside of its results: '" + folder + "'"});
  }
  for (const Change& change : changes) {
    CAPTURE(change.sql);
    CHECK_THAT(refusal_after(change.sql), Contains(change.refusal));
  }
}

TEST_CASE("a text that differs from another of its digest is refused, and that one stays") {
  const ResultsFolder alice, all;
  const std::string digest = text_digest("hers");
  fill(alice);
  Database(alice.database())
      .execute("insert into experiment_texts values ('" + digest + "', 'hers')");
  { const Store store(all.path()); }
  Database(all.database()).execute("insert into experiment_texts values ('" + digest + "', 'x')");
  CHECK_THAT(skipped(all, {{"alice", alice.path()}}),
             Contains(alice.path().string()) && Contains("another text of the digest"));
  CHECK(sqlite3(all, "select text from experiment_texts") == "x\n");
}

TEST_CASE("a source with figures that nothing measures is refused, with run and column") {
  struct Figure {
    const char* change;
    const char* refusal;
  };
  const Figure figure = GENERATE(values<Figure>({
      {"update summaries set tokens_per_second = 9e999", "Inf as tokens_per_second in its table"},
      {"update summaries set tokens_per_second = -1", "allowed: 0 to 1e39"},
      {"update summaries set step_time_ms_p25 = 1e300", "allowed: 0 to 1e15 ms"},
      {"update summaries set loss_last = -9e999", "allowed: -1e39 to 1e39"},
      {"update attempts set started_unix_ms = -62167219200000", "a time from 1970 to 9999"},
      {"update attempts set started_unix_ms = 9223372036854775807", "a time from 1970 to 9999"},
      {"update attempts set environment = '{'", "'{' as environment in its table attempts"},
      {"update attempts set environment = '[]'", "allowed: a JSON object"},
      {"update runs set spec = 'null'", "allowed: a JSON object"},
      {"update steps set tokens = -1 where step = 2", "-1 as tokens in its table steps"},
      {"update ranks set device_memory_bytes = -5", "-5 as device_memory_bytes"},
      {"update device_samples set power_watts = 9e999", "Inf as power_watts"},
  }));
  CAPTURE(figure.change);
  const std::string refusal = refusal_after(figure.change);
  CHECK_THAT(refusal, Contains(figure.refusal));
  CHECK_THAT(refusal, Contains("its run 1, 'one' of the experiment 'lab', has ") &&
                          Contains("`fsdp-run prune 1`"));
}

TEST_CASE("figures that a run can have are merged, however odd") {
  const ResultsFolder eve, all;
  fill(eve);
  Database(eve.database())
      .execute(
          "update summaries set loss_last = -3e38, energy_joules = -2, steps = 0,"
          " step_time_ms_median = 1e14;"
          "update attempts set started_unix_ms = 0, environment = '{}';"
          "update ranks set exit_code = -9");
  CHECK(merge_results(all.path(), std::vector<MergeSource>{{"eve", eve.path()}}).front().runs == 2);
}

TEST_CASE("merged results can be merged once more; names tell the way") {
  const ResultsFolder alice, of_class, of_school;
  fill(alice);
  merge_results(of_class.path(), std::vector<MergeSource>{{"alice", alice.path()}});
  merge_results(of_school.path(), std::vector<MergeSource>{{"2026", of_class.path()}});
  const std::vector<ComparisonRow> rows = Store(of_school.path()).comparison("2026/alice/lab");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].source == "2026/alice");
  CHECK(std::filesystem::weakly_canonical(of_school.path() / rows[0].folder) ==
        std::filesystem::canonical(alice.path()) / "runs/lab/one");
}

TEST_CASE("merged results of one name that came from two places are told apart") {
  const ResultsFolder alice, other_alice, of_class, of_other_class, of_school;
  fill(alice);
  fill(other_alice, 5);
  merge_results(of_class.path(), std::vector<MergeSource>{{"alice", alice.path()}});
  merge_results(of_other_class.path(), std::vector<MergeSource>{{"alice", other_alice.path()}});
  const std::vector<MergeSource> first{{"2026", of_class.path()}};
  merge_results(of_school.path(), first);
  merge_results(of_school.path(), first);
  CHECK_THAT(skipped(of_school, {{"2026", of_other_class.path()}}),
             Contains("has runs of '2026' from another place"));
  CHECK(Store(of_school.path()).comparison("2026/alice/lab").at(0).steps == 3);
}

// A new table needs a decision: the merge copies it, or this list leaves it out.
TEST_CASE("every table of the schema is merged or left out on purpose") {
  const ResultsFolder results;
  { const Store store(results.path()); }
  std::vector<std::string> expected = kTables;
  expected.push_back("file_digests");  // of files on this machine
  expected.push_back("stamps");        // of files of the results
  expected.push_back("jobs");          // followed by whoever submitted them
  expected.push_back("job_tasks");
  Database database(results.database());
  std::vector<std::string> found;
  Statement(database, "select name from sqlite_master where type = 'table'")
      .query([&](Statement& row) { found.push_back(row.next<std::string>()); });
  CHECK_THAT(found, Catch::UnorderedEquals(expected));
}

TEST_CASE("attempts keep the names of their jobs, and open jobs stay with who submitted them") {
  const ResultsFolder alice, all;
  const int64_t run = fill(alice);
  {
    Store store(alice.path());
    JobRecord job;
    job.experiment = "lab";
    job.token = "t0ken";
    job.folder = "slurm/lab-" + job.token;
    job.slurm_job = "12";
    job.mode = "per_run";
    job.tasks = {{.task = 0, .run = run}, {.task = 1, .run = run + 1}};
    store.record_job(job);
    AttemptStart start = attempt_start(9'000);
    start.slurm_job = "12_0";
    start.node_list = "n1";
    store.begin_attempt(run, start);
    store.record_status(run + 1, RunStatus::kQueued, "Resources");
  }
  const std::vector<MergeSource> sources{{"alice", alice.path()}};
  for (int time = 0; time < 2; ++time) {
    merge_results(all.path(), sources);
    const Store store(all.path());
    CHECK(store.open_jobs("").empty());
    const std::vector<StatusRow> rows = store.statuses("");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].slurm_job == "12_0");
    CHECK(rows[0].node_list == "n1");
    CHECK(rows[1].status == RunStatus::kQueued);
    CHECK(rows[1].slurm_job.empty());
    CHECK(store.attempts(rows[0].run).back().slurm_job == "12_0");
  }
}

}  // namespace
}  // namespace fsdp
