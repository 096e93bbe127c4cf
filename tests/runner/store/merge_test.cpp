#include "runner/store/merge.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "base/files/digest.h"
#include "base/text/config_error.h"
#include "base/text/json.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

using Catch::Matchers::Contains;
using std::filesystem::path;

// Plans two runs of `lab`. The first has an attempt with events of every kind, a log, and a
// checkpoint.
int64_t fill(const ResultsFolder& results, int64_t steps = 3) {
  Store store(results.path());
  ExperimentRecord lab = experiment("lab");
  lab.text = "experiment: lab";
  lab.text_digest = text_digest(lab.text);
  const int64_t run =
      store.plan(lab, in_order({planned_run("one", 1), planned_run("two", 1)})).front().id;
  AttemptStart start = attempt_start();
  start.provenance.git_commit = "c0ffee";
  start.provenance.experiment_text_digest = lab.text_digest;
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
  std::ofstream file(results / "runs/lab/one/attempt-1/events.rank0.jsonl");
  for (const Event& each : events) file << to_json_line(each) << '\n';
  file.close();
  results.write("runs/lab/one/attempt-1/rank0.log", "all is well\n");
  std::filesystem::create_directories(results / "runs/lab/one/checkpoints/step-1");
  results.write("runs/lab/one/checkpoints/step-1/trainer.json", "{}");
  store.end_attempt(run, attempt, RunStatus::kOutOfMemory, "", 7'000);
  return run;
}

// Leaves what version 0.1.0 wrote: no file says which runs there are.
void make_old(const ResultsFolder& results) {
  for (const char* name : {"lists", "texts", "runs/lab/one/run.json", "runs/lab/two",
                           "runs/lab/one/attempt-1/verdict.json"}) {
    std::filesystem::remove_all(results / name);
  }
}

std::vector<std::string> shown(const Store& store) {
  std::vector<std::string> rows;
  for (ComparisonRow row : store.comparison("", Listed::kEver)) {
    row.folder = "";
    rows.push_back(JsonObject().add_fields(row).add("current", row.current).text());
  }
  for (const RankRow& row : store.comparison_per_rank("")) rows.push_back(json_text(row));
  return rows;
}

std::vector<std::string> shown(const ResultsFolder& results) {
  return shown(Store(results.path(), StoreUse::kExisting));
}

std::map<std::string, std::string> bytes_in(const path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    files[entry.path()] = std::string(std::istreambuf_iterator<char>(stream), {});
  }
  return files;
}

MergedSource merge(const ResultsFolder& results, const std::string& name, const path& source) {
  return merge_results(results.path(), std::vector<MergeSource>{{name, source}}).front();
}

TEST_CASE("everything that two people measured is in one folder, and whose it is") {
  const ResultsFolder alice, bob, all;
  fill(alice);
  fill(bob, 5);
  bob.write("runs/lab/one/attempt-1/rank1.log", std::string((1 << 20) + 1, 'x'));
  const std::vector<MergeSource> sources{{"alice", alice.path()}, {"bob", bob.path()}};
  const std::vector<MergedSource> merged = merge_results(all.path(), sources);
  REQUIRE(merged.size() == 2);
  CHECK(merged[1].experiments == 1);
  CHECK(merged[1].runs == 2);
  CHECK(merged[1].new_runs == 2);
  for (const char* table :
       {"experiments", "runs", "attempts", "ranks", "steps", "evaluations", "checkpoints",
        "device_samples", "summaries", "cpu_uses", "memory_peaks"}) {
    CAPTURE(table);
    CHECK(count(all, table) == count(alice, table) + count(bob, table));
  }
  const Store store(all.path());
  const std::vector<ComparisonRow> rows = store.comparison("");
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].experiment == "alice/lab");
  CHECK(rows[0].source == "alice");
  CHECK(rows[0].steps == 3);
  CHECK(rows[0].git_commit == "c0ffee");
  CHECK(rows[0].status == RunStatus::kOutOfMemory);
  CHECK(rows[1].status == RunStatus::kPlanned);
  CHECK(rows[2].source == "bob");
  CHECK(rows[2].steps == 5);
  CHECK(rows[2].folder == "merged/bob/runs/lab/one");
  CHECK(store.experiment_text(rows[2].run, 1) == "experiment: lab");
  CHECK(names_in(all / "merged/bob/runs/lab/one/attempt-1") ==
        std::vector<std::string>{"events.rank0.jsonl", "launch.json", "rank0.log", "verdict.json"});
  CHECK_FALSE(std::filesystem::exists(all / "merged/bob/runs/lab/one/checkpoints"));
}

TEST_CASE("a lost index is made anew with the merged runs") {
  const ResultsFolder alice, all;
  fill(alice);
  fill(all);
  merge(all, "alice", alice.path());
  const std::vector<std::string> before = shown(all);
  REQUIRE(before.size() == 2 * 4);
  std::filesystem::remove(all.database());
  CHECK(shown(all) == before);
}

TEST_CASE("merging again adds nothing, keeps the runs' numbers, and takes over what is new") {
  const ResultsFolder alice, all;
  const int64_t run = fill(alice);
  merge(all, "alice", alice.path());
  const std::vector<std::string> before = shown(all);
  const MergedSource again = merge(all, "alice", alice.path());
  CHECK(again.runs == 2);
  CHECK(again.new_runs == 0);
  CHECK(shown(all) == before);
  {
    Store store(alice.path());
    store.begin_attempt(run, attempt_start(9'000));
    std::ofstream(alice / "runs/lab/one/attempt-2/events.rank0.jsonl")
        << to_json_line(event(0, 1, RunStarted{})) << '\n'
        << to_json_line(event(1, 2, step_done(1, 20))) << '\n';
    store.end_attempt(run, 2, RunStatus::kOutOfMemory, "", 9'500);
    store.plan(experiment("lab"), in_order({planned_run("one", 1), planned_run("three", 1)}));
  }
  CHECK(merge(all, "alice", alice.path()).new_runs == 1);
  Store store(all.path());
  const std::vector<ComparisonRow> rows = store.comparison("alice/lab");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].run == 1);
  CHECK(rows[0].attempt == 2);
  CHECK(rows[0].step_time_ms_median == 20);
  CHECK(rows[1].point == "three");
  CHECK(store.runs().size() == 3);
}

TEST_CASE("runs that a source no longer has stay, and leave the lists") {
  const ResultsFolder alice, all;
  fill(alice);
  merge(all, "alice", alice.path());
  std::filesystem::remove_all(alice / "runs/lab/one");
  CHECK(merge(all, "alice", alice.path()).skipped.empty());
  CHECK(Store(all.path()).comparison("alice/lab").size() == 1);
  std::filesystem::remove_all(alice / "runs");
  std::filesystem::remove_all(alice / "lists/lab.json");
  CHECK(merge(all, "alice", alice.path()).skipped.empty());
  std::filesystem::remove(all.database());
  const Store store(all.path(), StoreUse::kExisting);
  CHECK(store.comparison("").empty());
  CHECK(store.runs().size() == 2);
  CHECK(store.attempts(store.runs().front().id).size() == 1);
}

TEST_CASE("sources stay as they are, also one that cannot be written") {
  const ResultsFolder alice, all;
  fill(alice);
  const bool is_old = GENERATE(false, true);
  if (is_old) make_old(alice);
  const auto before = bytes_in(alice.path());
  const auto read_only = std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec;
  std::filesystem::permissions(alice.database(), std::filesystem::perms::owner_read);
  std::filesystem::permissions(alice.path(), read_only);
  merge(all, "alice", alice.path());
  CHECK(bytes_in(alice.path()) == before);
  std::filesystem::permissions(alice.path(), std::filesystem::perms::owner_all);
  CHECK(count(all, "runs") == 2);
  CHECK(count(all, "steps") == 3);
}

TEST_CASE("results of an earlier version give the same rows as with their files") {
  const ResultsFolder alice, all, all_of_old;
  fill(alice);
  merge(all, "alice", alice.path());
  make_old(alice);
  merge(all_of_old, "alice", alice.path());
  CHECK(shown(all_of_old) == shown(all));
}

TEST_CASE("runs that an earlier version merged get their files") {
  const ResultsFolder alice, all;
  fill(alice);
  fill(all);
  merge(all, "alice", alice.path());
  const std::vector<std::string> before = shown(all);
  const std::string theirs = alice.path().lexically_relative(all.path()).string();
  Database(all.database())
      .execute("update runs set folder = replace(folder, 'merged/alice', '" + theirs + "')");
  std::filesystem::remove_all(all / "merged");
  std::filesystem::remove_all(all / "lists");
  CHECK(shown(all) == before);
  std::filesystem::remove(all.database());
  CHECK(shown(all) == before);
}

// The writer's pages are in the file and its journal is there, as after a power cut.
TEST_CASE("what a killed writer left half-written in a source is undone in the copy only") {
  const ResultsFolder alice, all;
  const int64_t run = fill(alice);
  make_old(alice);
  const pid_t writer = fork();
  if (writer == 0) {
    Database database(alice.database());
    database.execute("pragma cache_size = 1; begin immediate");
    Statement insert(database, "update runs set reason = ? where id = ?");
    for (int64_t i = 0; i < 2'000; ++i) insert.run(std::string(static_cast<size_t>(i), 'x'), run);
    _exit(0);
  }
  REQUIRE(waitpid(writer, nullptr, 0) == writer);
  REQUIRE(std::filesystem::file_size(alice.database().string() + "-journal") > 0);
  const auto before = bytes_in(alice.path());
  CHECK(merge(all, "alice", alice.path()).skipped == "");
  CHECK(bytes_in(alice.path()) == before);
  CHECK(sqlite3(all, "select distinct reason from runs") == "\"\"\n");
}

TEST_CASE("an old source with a write-ahead log is skipped, and no file is left beside it") {
  const ResultsFolder alice, all;
  fill(alice);
  make_old(alice);
  Database(alice.database()).execute("pragma journal_mode = wal");
  std::filesystem::remove(alice.database().string() + "-journal");
  const auto before = bytes_in(alice.path());
  CHECK_THAT(merge(all, "alice", alice.path()).skipped,
             Contains("write-ahead log") &&
                 Contains("fsdp-run report --results " + alice.path().string()));
  CHECK(bytes_in(alice.path()) == before);
  { const Store opened(alice.path()); }
  CHECK(merge(all, "alice", alice.path()).new_runs == 2);
}

TEST_CASE("a run is not merged twice, under another name or through others' merged results") {
  const ResultsFolder alice, of_class, of_school;
  fill(alice);
  merge(of_class, "alice", alice.path());
  merge(of_school, "alice", alice.path());
  const std::vector<std::string> before = shown(of_school);
  CHECK_THAT(merge(of_school, "bob", alice.path()).skipped,
             Contains("already, as 'alice', and would have them twice"));
  CHECK_THAT(merge(of_school, "2026", of_class.path()).skipped, Contains("would have them twice"));
  CHECK(shown(of_school) == before);
}

TEST_CASE("merged results can be merged once more; names tell the way") {
  const ResultsFolder alice, other_alice, of_class, of_other_class, of_school;
  fill(alice);
  fill(other_alice, 5);
  merge(of_class, "alice", alice.path());
  merge(of_other_class, "alice", other_alice.path());
  merge(of_school, "2026", of_class.path());
  merge(of_school, "2026", of_class.path());
  CHECK_THAT(merge(of_school, "2026", of_other_class.path()).skipped,
             Contains("has runs of '2026' from another place"));
  const std::vector<ComparisonRow> rows = Store(of_school.path()).comparison("2026/alice/lab");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].source == "2026/alice");
  CHECK(rows[0].steps == 3);
  CHECK(rows[0].folder == "merged/2026/merged/alice/runs/lab/one");
}

TEST_CASE("an experiment of the results' own is not overwritten by one that is merged") {
  const ResultsFolder alice, all;
  fill(alice);
  { Store(all.path()).plan(experiment("alice/lab"), {}); }
  CHECK_THAT(merge(all, "alice", alice.path()).skipped,
             Contains("has an experiment 'alice/lab' of its own"));
}

// Checks that `other` is skipped for this reason, and that the sources beside it are merged.
void check_is_skipped(const ResultsFolder& other, const std::string& reason) {
  const ResultsFolder alice, carol, all, nothing;
  fill(alice);
  fill(carol, 5);
  const std::vector<MergeSource> sources{
      {"alice", alice.path()}, {"other", other.path()}, {"carol", carol.path()}};
  for (const int64_t is_first : {1, 0}) {
    const std::vector<MergedSource> merged = merge_results(all.path(), sources);
    CHECK(merged[0].skipped == "");
    CHECK(merged[2].skipped == "");
    CHECK(merged[2].new_runs == 2 * is_first);
    CHECK(merged[1].runs == 0);
    CHECK_THAT(merged[1].skipped, Contains(reason) && Contains(other.path().string()) &&
                                      !Contains(".new") && !Contains("\n"));
    CHECK(names_in(all / "merged") == std::vector<std::string>{"alice", "carol"});
  }
  const path target = nothing / "results";
  CHECK(merge_results(target, std::vector{sources[1]}).front().skipped != "");
  CHECK_FALSE(std::filesystem::exists(target));
}

TEST_CASE("a source that is torn, foreign, newer or empty is skipped, and the others are merged") {
  const ResultsFolder other;
  std::string reason = other.database().string();
  const auto change = [&](const std::string& sql) {
    fill(other);
    make_old(other);
    Database(other.database()).execute("pragma foreign_keys = off;" + sql);
  };
  SECTION("torn") {
    change("create table padding as select zeroblob(1000000)");
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
  SECTION("no bytes") {
    other.write("results.sqlite", "");
    reason = "is not a database of fsdp-run";
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
    change("pragma user_version = 99");
    reason = "written by a newer fsdp-run; this one reads up to version";
  }
  SECTION("another schema") {
    change("drop table steps; create view steps as select 1 as run");
    reason = "its 'steps' is another one than this fsdp-run's";
  }
  SECTION("an unknown status") {
    change("update attempts set status = 'perfect'");
    reason = "'perfect' is not a known value";
  }
  SECTION("an unknown setting") {
    change("update runs set spec = json_set(spec, '$.batch.total', -4)");
    reason = "'batch.total': -4 is not a value";
  }
  check_is_skipped(other, reason);
}

TEST_CASE(
    "a source with files that fsdp-run does not write is skipped, and links are not followed") {
  const ResultsFolder other, secret;
  fill(other);
  secret.write("run.json", bytes_in(other.path()).at(other / "runs/lab/one/run.json"));
  const path run = other / "runs/lab/one";
  const auto put_link = [&](const path& place) {
    std::filesystem::remove_all(place);
    std::filesystem::create_symlink(secret / "run.json", place);
    return place.string() + ": is a link";
  };
  std::string reason;
  SECTION("no JSON") {
    std::ofstream(run / "run.json") << "{";
    reason = (run / "run.json").string() + ": left out";
  }
  SECTION("an impossible start") {
    std::ofstream(run / "attempt-1/launch.json") << R"({"host": "a", "started_unix_ms": -1})";
    reason = "no moment: -1";
  }
  SECTION("a list") {
    std::ofstream(other / "lists/lab.json") << "[]";
    reason = (other / "lists/lab.json").string();
  }
  SECTION("a link to a record") { reason = put_link(run / "run.json"); }
  SECTION("a link to events") { reason = put_link(run / "attempt-1/events.rank0.jsonl"); }
  SECTION("a link to a log") { reason = put_link(run / "attempt-1/rank0.log"); }
  SECTION("a link to a text") { reason = put_link(other / "texts/1.yaml"); }
  SECTION("a link to a run") {
    std::filesystem::create_directory_symlink(secret.path(), other / "runs/lab/link");
    reason = "link: is a link";
  }
  SECTION("a link to merged results") {
    std::filesystem::create_directory(other / "merged");
    std::filesystem::create_directory_symlink(secret.path(), other / "merged/link");
    reason = "link";
  }
  SECTION("a pipe") {
    std::filesystem::remove(run / "attempt-1/events.rank0.jsonl");
    REQUIRE(mkfifo((run / "attempt-1/events.rank0.jsonl").c_str(), 0600) == 0);
    reason = "events.rank0.jsonl: is no file";
  }
  SECTION("a huge file") {
    other.write("runs/lab/one/status.json", "");
    std::filesystem::resize_file(run / "status.json", uintmax_t{65} << 20);
    reason = "status.json: is too large";
  }
  check_is_skipped(other, reason);
}

TEST_CASE("a source is not merged into itself") {
  const ResultsFolder all, other;
  fill(all);
  std::filesystem::create_directory_symlink(all.path(), other / "link");
  CHECK_THAT(merge(all, "other", other / "link").skipped, Contains("is the folder to merge into"));
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
  for (int time = 0; time < 2; ++time) {
    merge(all, "alice", alice.path());
    const Store store(all.path());
    CHECK(store.open_jobs("").empty());
    CHECK(store.running_attempts("alice/lab").empty());
    const std::vector<StatusRow> rows = store.statuses("");
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].slurm_job == "12_0");
    CHECK(rows[0].node_list == "n1");
    CHECK(rows[1].status == RunStatus::kQueued);
    CHECK(rows[1].slurm_job.empty());
    CHECK(store.attempts(rows[0].run).back().slurm_job == "12_0");
  }
}

TEST_CASE("a store of several folders shows what a merge of them shows, and writes nothing") {
  const ResultsFolder alice, bob, of_bob, all;
  fill(alice);
  fill(of_bob);
  fill(bob, 5);
  merge(bob, "friend", of_bob.path());
  const std::vector<MergeSource> sources{{"alice", alice.path()}, {"bob", bob.path()}};
  merge_results(all.path(), sources);
  const auto before = bytes_in(bob.path());
  const Store store({{alice.path(), "alice"}, {bob.path(), "bob"}}, [](const std::string&) {});
  CHECK(shown(store) == shown(all));
  CHECK(bytes_in(bob.path()) == before);
  const std::vector<ComparisonRow> rows = store.comparison("bob/friend/lab");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].folder == bob / "merged/friend/runs/lab/one");
  make_old(alice);
  CHECK_THROWS_WITH(Store({{alice.path(), "alice"}}, [](const std::string&) {}),
                    Contains("has no files of runs"));
}

}  // namespace
}  // namespace fsdp
