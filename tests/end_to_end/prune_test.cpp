#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runner/store/database.h"
#include "tests/end_to_end/stub_runs.h"

// fsdp-run prune
using namespace fsdp;
using Catch::Matchers::Contains;
using std::filesystem::path;

namespace {

const std::string kWithCheckpoints =
    "  - {name: one, train.steps: 6, checkpoint.every_steps: 1}\n"
    "  - {name: two, checkpoint.every_steps: 2}\n";

std::vector<RunRecord> runs(const Workplace& workplace) {
  return Store(workplace.results(), StoreUse::kExisting).runs();
}

path folder_of(const Workplace& workplace, int64_t run) {
  return workplace.results() / runs(workplace).at(static_cast<size_t>(run - 1)).folder;
}

int64_t count(const Workplace& workplace, const std::string& table) {
  Database database(workplace.results() / "results.sqlite");
  return Statement(database, "select count(*) from " + table).value<int64_t>().value();
}

// Makes the first attempt of the run 40 days older.
void make_old(const Workplace& workplace, int64_t run) {
  constexpr int64_t kAgeMs = int64_t{40} * 86'400'000;
  const path folder = folder_of(workplace, run);
  const path file = folder / "attempt-1/launch.json";
  nlohmann::json start = nlohmann::json::parse(text_of(file));
  start["started_unix_ms"] = start["started_unix_ms"].get<int64_t>() - kAgeMs;
  std::ofstream(file) << start;
  std::filesystem::last_write_time(folder, std::filesystem::file_time_type::clock::now());
}

// Makes a checkpoint complete, as the trainer leaves it.
void complete(const path& checkpoint) {
  nlohmann::json state{{"step", 1}};
  std::ofstream(checkpoint / "weights") << "weights";
  state["files"] = {{{"name", "weights"}, {"size_bytes", 7}}};
  std::ofstream(checkpoint / "trainer.json") << state;
}

const Variables kKill{{"LD_PRELOAD", KILL_AT_CALL_LIBRARY},
                      {"ASAN_OPTIONS", "verify_asan_link_order=0"}};

Variables kill_at(int call) {
  Variables variables = kKill;
  variables["KILL_AT_CALL"] = std::to_string(call);
  return variables;
}

}  // namespace

TEST_CASE("prune says what it needs to know, and asks; without a terminal it wants --yes") {
  const Workplace workplace("  - {name: one}\n  - {name: two, train.steps: 4}\n");
  CHECK(workplace.run().status == 0);
  CHECK_THAT(workplace.call({"prune"}).errors, Contains("which runs?"));
  CHECK_THAT(workplace.call({"prune", "one", "--keep-last", "2"}).errors,
             Contains("--checkpoints"));
  CHECK_THAT(workplace.call({"prune", "--older-than", "yesterday"}).errors,
             Contains("--older-than: 'yesterday' is not a time"));
  const Ended shown = workplace.call({"prune", "one", "--dry-run"});
  CHECK(shown.status == 0);
  CHECK_THAT(shown.output, Contains("1 (trial/one, ") && Contains("), finished\n1 run, "));
  const Ended unanswered = workplace.call({"prune", "one"});
  CHECK(unanswered.status == 2);
  CHECK_THAT(unanswered.errors, Contains("call it with --yes"));
  CHECK(runs(workplace).size() == 2);

  const auto answered = [&](const std::string& answer) {
    const std::string call = std::string(FSDP_RUN_PROGRAM) + " prune one";
    return Program(workplace / ".",
                   {"/bin/sh", "-c", "echo " + answer + " | script -qec '" + call + "' /dev/null"})
        .wait()
        .output;
  };
  CHECK_THAT(answered("n"), Contains("[y/N]") && Contains("nothing was removed"));
  CHECK(runs(workplace).size() == 2);
  const path folder = folder_of(workplace, 1);
  CHECK(std::filesystem::exists(folder));
  CHECK_THAT(answered("y"), Contains("removed"));
  CHECK(runs(workplace).size() == 1);
  CHECK_FALSE(std::filesystem::exists(folder));
  CHECK_THAT(workplace.call({"prune", "one", "--yes"}).errors, Contains("names no run"));

  // Removed runs run again.
  CHECK_THAT(workplace.run().errors, Contains("one: started") && !Contains("two: started"));
}

TEST_CASE("prune takes what is old, or what left its experiment's list, with all of its rows") {
  const Workplace workplace("  - {name: one}\n  - {name: two, train.steps: 4}\n");
  CHECK(workplace.run().status == 0);
  CHECK(workplace.call({"prune", "--older-than", "1d", "--yes"}).output == "nothing to remove\n");
  CHECK(workplace.call({"prune", "--not-current", "--yes"}).output == "nothing to remove\n");
  make_old(workplace, 2);
  CHECK_THAT(workplace.call({"prune", "--older-than", "30d", "--dry-run"}).output,
             Contains("trial/two") && !Contains("trial/one"));
  std::ofstream(workplace / "experiment.yaml")
      << "experiment: trial\nbase: {device: cpu, train.steps: 5, data.train: " << few_games()
      << "}\npoints: [{name: two, train.steps: 4}]\n";
  CHECK(workplace.run().status == 0);
  CHECK(workplace.call({"prune", "--not-current", "--older-than", "30d", "--yes"}).output ==
        "nothing to remove\n");
  CHECK_THAT(workplace.call({"prune", "--not-current", "--yes"}).output, Contains("trial/one"));
  CHECK(runs(workplace).size() == 1);
  CHECK(workplace.call({"prune", "trial", "--yes"}).status == 0);
  for (const std::string table :
       {"experiments", "runs", "attempts", "ranks", "steps", "summaries", "experiment_texts"}) {
    CAPTURE(table);
    CHECK(count(workplace, table) == 0);
  }
  CHECK(names_in(workplace.results() / "runs").empty());
}

TEST_CASE("prune keeps the newest checkpoints, and the runs' figures") {
  const Workplace workplace(kWithCheckpoints);
  CHECK(workplace.run().status == 0);
  const path one = folder_of(workplace, 1) / "checkpoints";
  const path two = folder_of(workplace, 2) / "checkpoints";
  for (int step = 1; step <= 6; ++step) complete(one / ("step-" + std::to_string(step)));
  for (const char* step : {"step-2", "step-4"}) complete(two / step);
  std::filesystem::create_directory(one / "mine");
  const Ended pruned = workplace.call({"prune", "--checkpoints", "--keep-last", "3", "--yes"});
  CHECK(pruned.errors == "");
  CHECK_THAT(pruned.output, Contains("checkpoint of step 3\n") && Contains("\n3 checkpoints, "));
  CHECK(names_in(one) == std::vector<std::string>{"mine", "step-4", "step-5", "step-6"});
  CHECK(names_in(two) == std::vector<std::string>{"step-2", "step-4"});
  CHECK(count(workplace, "steps") == 11);
  CHECK_THAT(workplace.run().errors, Contains("2 runs with a result already"));
}

TEST_CASE("a checkpoint that another run resumes from is neither pruned nor moved by --rerun") {
  const Workplace workplace("  - {name: one, train.steps: 6, checkpoint.every_steps: 2}\n");
  CHECK(workplace.run().status == 0);
  const path checkpoints = folder_of(workplace, 1) / "checkpoints";
  for (const char* step : {"step-2", "step-4", "step-6"}) complete(checkpoints / step);
  std::filesystem::create_directory_symlink(checkpoints, workplace / "link");
  std::ofstream(workplace / "other.yaml")
      << "experiment: other\nbase: {device: cpu, train.steps: 5, resume: link/step-2}\n"
         "points: [{name: two}]\n";
  Program runner(workplace / ".", workplace.command({"other.yaml"}),
                 {{"STUB_RULES", "point=two,step=2,await=" + (workplace / "go").string()}});
  REQUIRE(soon([&] {
    const std::vector<RunRecord> all = runs(workplace);
    return all.size() == 2 && all[0].status == RunStatus::kRunning;
  }));
  const Ended refused = workplace.run({"experiment.yaml", "--rerun"});
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("'other/two' (running) reads ") &&
                                 Contains("link/step-2 (resume); wait until that run ends"));
  std::ofstream(workplace / "go");
  CHECK(runner.wait().status == 0);
  const Ended kept = workplace.call({"prune", "trial", "--yes"});
  CHECK(kept.output == "nothing to remove\n");
  CHECK_THAT(kept.errors, Contains("left alone: ") && Contains("which 2 (other/two, "));
}

TEST_CASE("prune and cancel take an experiment for the one of its own name, not for merged ones") {
  const Workplace workplace("  - {name: one}\n");
  CHECK(workplace.run().status == 0);
  std::filesystem::create_directory(workplace / "alice");
  std::filesystem::copy(workplace.results(), workplace / "alice",
                        std::filesystem::copy_options::recursive);
  CHECK(workplace.call({"merge", "alice"}).status == 0);
  CHECK(workplace.call({"prune", GENERATE("trial", "experiment.yaml"), "--yes"}).status == 0);
  REQUIRE(runs(workplace).size() == 1);
  CHECK(runs(workplace)[0].experiment == "alice/trial");
  CHECK_THAT(workplace.call({"prune", "trial", "--yes"}).errors, Contains("names no run"));
  CHECK_THAT(workplace.call({"cancel", "trial"}).errors, Contains("names no run"));
  REQUIRE(std::filesystem::exists(folder_of(workplace, 1) / "run.json"));
  CHECK(workplace.call({"prune", "alice/trial", "--yes"}).status == 0);
  CHECK(runs(workplace).empty());
  CHECK_FALSE(std::filesystem::exists(workplace.results() / "merged"));
  CHECK(Store(workplace / "alice").runs().size() == 1);
}

TEST_CASE("prune leaves alone what another runner works on") {
  const Workplace workplace("  - {name: one}\n  - {name: two, train.steps: 4}\n");
  CHECK(workplace.run().status == 0);
  std::filesystem::create_directories(workplace / "other");
  Program runner(workplace / ".", workplace.command({"experiment.yaml", "--rerun"}),
                 {{"STUB_RULES", "point=one,step=2,await=" + (workplace / "go").string()}});
  REQUIRE(soon([&] { return runs(workplace)[0].status == RunStatus::kRunning; }));
  const Ended refused = workplace.call({"prune", "trial", "--yes"});
  CHECK(refused.status == 0);
  CHECK(refused.output == "nothing to remove\n");
  CHECK_THAT(refused.errors, Contains("left alone: 'trial', another fsdp-run"));
  CHECK(runs(workplace).size() == 2);
  std::ofstream(workplace / "go");
  CHECK(runner.wait().status == 0);

  // Without a runner, a run that is recorded as running was left by a killed runner.
  remove_verdict(RunPaths(workplace.results() / runs(workplace)[0].folder), 2);
  CHECK_THAT(workplace.call({"prune", "trial", "--yes"}).output,
             Contains("trial/two") && !Contains("trial/one"));
  CHECK(runs(workplace).size() == 1);
}

// Kills prune at every call that changes the file system, one after the other.
TEST_CASE(
    "prune may be killed at any moment: no run is left without its files, none of its files "
    "without an end") {
  const Workplace workplace(kWithCheckpoints);
  CHECK(workplace.run().status == 0);
  complete(folder_of(workplace, 1) / "checkpoints/step-1");
  const std::string folder_1 = runs(workplace)[0].folder;
  const std::string folder_2 = runs(workplace)[1].folder;
  const path sound = workplace / "sound";
  std::filesystem::rename(workplace.results(), sound);
  bool checkpoints = false;
  SECTION("runs") {}
  SECTION("checkpoints") { checkpoints = true; }
  std::vector<std::string> call{"prune", "one", "--yes"};
  if (checkpoints) call.push_back("--checkpoints");

  int killed = 0;
  for (Ended ended; ended.status != 0; ++killed) {
    CAPTURE(killed);
    std::filesystem::remove_all(workplace.results());
    std::filesystem::copy(sound, workplace.results(), std::filesystem::copy_options::recursive);
    ended = workplace.call(call, kill_at(killed + 1));
    REQUIRE((ended.status == 0 || ended.status == 128 + SIGKILL));

    const std::vector<RunRecord> left = runs(workplace);
    REQUIRE(left.size() >= (checkpoints ? 2 : 1));
    const path one = workplace.results() / folder_1;
    if (left.size() == 2) {
      CHECK(std::filesystem::exists(one / "run.yaml"));
      CHECK(std::filesystem::exists(one / "attempt-1/rank0.log"));
      // An incomplete folder is not called a checkpoint.
      if (std::filesystem::exists(one / "checkpoints/step-1")) {
        CHECK(std::filesystem::exists(one / "checkpoints/step-1/trainer.json"));
      }
    }
    // The next call completes the prune. It may have nothing to do, or find no run of that name.
    workplace.call(checkpoints ? call
                               : std::vector<std::string>{"prune", "--older-than", "0s",
                                                          "trial/one", "--yes"});
    workplace.call({"prune", "--not-current", "--yes"});
    CHECK(runs(workplace).size() == (checkpoints ? 2U : 1U));
    CHECK(std::filesystem::exists(workplace.results() / folder_2 / "checkpoints/step-2"));
    if (checkpoints) {
      CHECK(names_in(one / "checkpoints").empty());
    } else {
      CHECK(names_in(one.parent_path()) ==
            std::vector<std::string>{path(folder_2).filename().string()});
    }
  }
  CHECK(killed > 10);
}

namespace {

// Prunes run `one`, or the checkpoints, on a small file system without a free byte or inode. The
// file system is in a mount namespace of its own. With KILL_EVERY, kills prune at that many calls
// and its multiples, each time on a fresh copy of the results, and calls prune again.
constexpr const char* kPruneFullDisk = R"sh(
set -eu
words=$1
limits=$2
fill() {
  if [ "$limits" = size=16m ]; then cat /dev/zero > small/filler 2>/dev/null || true
  else i=0; while true > small/filler$i; do i=$((i + 1)); done 2>/dev/null; fi
}
place() {
  mount -t tmpfs -o $limits none small || exit 99
  cp -r results small/results
  fill
}
prune() { TMPDIR=$PWD/small "$RUNNER" prune $words --yes --results small/results; }
place
prune > prune.txt 2>&1 && echo 0 > prune.status || echo $? > prune.status
cp -r small/results after
umount small
call=${KILL_EVERY-}
while [ -n "$call" ]; do
  place
  status=0
  TMPDIR=$PWD/small LD_PRELOAD=$KILLER KILL_AT_CALL=$call "$RUNNER" prune $words --yes \
    --results small/results || status=$?
  [ $status = 137 ] || break
  prune || "$RUNNER" prune --not-current --yes --results small/results  # no run is named so any more
  cp -r small/results after-$call
  umount small
  call=$((call + KILL_EVERY))
done
)sh";

// Returns false if this host cannot mount a file system.
bool prune_full_disk(const Workplace& workplace, const std::string& words,
                     const std::string& limits, Variables variables = {}) {
  std::filesystem::create_directory(workplace / "small");
  std::ofstream(workplace / "full_disk.sh") << kPruneFullDisk;
  variables["RUNNER"] = FSDP_RUN_PROGRAM;
  const std::string unshare = geteuid() == 0 ? "unshare -m" : "unshare -rm";
  const Ended ended =
      Program(workplace / ".",
              {"/bin/sh", "-c", unshare + " sh full_disk.sh '" + words + "' " + limits}, variables)
          .wait(std::chrono::minutes(20));  // many calls, also under sanitizers
  INFO(words << " " << limits << ": " << text_of(workplace / "prune.txt") << ended.errors);
  if (ended.status == 99)
    WARN("skipped: a file system cannot be mounted here: " << ended.errors);
  else
    CHECK(first_line_of(workplace / "prune.status") == "0");
  return ended.status != 99;
}

// Checks that run `one` is gone with its files and rows, and that run `two` is there.
void check_one_is_gone(const path& results) {
  CAPTURE(results);
  const std::vector<RunRecord> left = Store(results, StoreUse::kExisting).runs();
  REQUIRE(left.size() == 1);
  CHECK(left[0].point == "two");
  CHECK(left[0].status == RunStatus::kFinished);
  CHECK(names_in(results / "runs/trial") ==
        std::vector<std::string>{left[0].folder.filename().string()});
  Database database(results / "results.sqlite");
  CHECK(Statement(database, "pragma integrity_check").value<std::string>() == "ok");
  CHECK(Statement(database, "select count(*) from steps").value<int64_t>() > 0);
  CHECK_FALSE(Statement(database, "pragma foreign_key_check").value<std::string>());
}

}  // namespace

TEST_CASE("prune makes room on a disk without a free byte or inode") {
  const Workplace workplace(
      "  - {name: one, train.steps: 2000, checkpoint.every_steps: 500}\n"
      "  - {name: two}\n");
  REQUIRE(workplace.run().status == 0);
  for (const char* step : {"step-500", "step-1000", "step-1500", "step-2000"}) {
    complete(folder_of(workplace, 1) / "checkpoints" / step);
  }
  const std::string limits = GENERATE("size=16m", "size=24m,nr_inodes=90");
  SECTION("of runs") {
    if (prune_full_disk(workplace, "one", limits)) check_one_is_gone(workplace / "after");
  }
  SECTION("of checkpoints") {
    if (!prune_full_disk(workplace, "--checkpoints", limits)) return;
    const Store store(workplace / "after");
    REQUIRE(store.runs().size() == 2);
    CHECK(names_in(workplace / "after" / store.run(1)->folder / "checkpoints").empty());
  }
}

TEST_CASE("a prune of a full disk that is killed is finished by the next") {
  const Workplace workplace("  - {name: one, train.steps: 2000}\n  - {name: two}\n");
  REQUIRE(workplace.run().status == 0);
  Variables variables = kKill;
  variables.erase("LD_PRELOAD");
  variables["KILLER"] = KILL_AT_CALL_LIBRARY;
  variables["KILL_EVERY"] = "3";
  if (!prune_full_disk(workplace, "one", "size=16m", variables)) return;
  int killed = 0;
  for (const std::string& name : names_in(workplace / ".")) {
    if (!name.starts_with("after")) continue;
    check_one_is_gone(workplace / name);
    ++killed;
  }
  CHECK(killed > 4);
}
