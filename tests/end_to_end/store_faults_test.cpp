#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <thread>

#include "contract/record/run_paths.h"
#include "runner/store/database.h"
#include "tests/end_to_end/stub_runs.h"

// Tests the database after real faults: several runners, kills at any moment and a full disk.
namespace fsdp {
namespace {

using Catch::Matchers::Contains;

int64_t number(const std::filesystem::path& file, const std::string& sql) {
  Database database(file);
  return Statement(database, sql).value<int64_t>().value();
}

void check_is_whole(const std::filesystem::path& file) {
  Database database(file);
  CHECK(Statement(database, "pragma integrity_check").value<std::string>() == "ok");
  CHECK_FALSE(Statement(database, "pragma foreign_key_check").value<std::string>());
  // The steps of a rank are complete up to the last recorded one.
  CHECK(Statement(database,
                  "select count(*) from ranks k join (select run, attempt, rank, count(*) as count,"
                  "  max(step) as step, max(sequence) as sequence from steps group by 1, 2, 3) s "
                  "using (run, attempt, rank) "
                  "where s.count <> s.step or k.last_sequence < s.sequence or k.steps <> s.count")
            .value<int>() == 0);
}

int64_t steps_in(const std::filesystem::path& events) {
  int64_t steps = 0;
  std::ifstream file(events);
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // an incomplete last line
    steps += line.find("\"kind\":\"step\"") != std::string::npos ? 1 : 0;
  }
  return steps;
}

// Checks that every attempt has ended, and that its rows and figures have all steps that its ranks
// wrote.
void check_holds_all_events(const std::filesystem::path& results) {
  Database database(results / "results.sqlite");
  Statement steps_of_rank(database,
                          "select count(*) from steps where run = ? and attempt = ? and rank = ?");
  int64_t attempts = 0;
  Statement(database,
            "select r.id, a.attempt, r.folder, r.ranks, s.steps from attempts a "
            "join runs r on r.id = a.run left join summaries s using (run, attempt)")
      .query([&](Statement& row) {
        ++attempts;
        const auto run = row.next<int64_t>();
        const auto attempt = row.next<int>();
        const RunPaths paths(results / row.next<std::filesystem::path>());
        const auto ranks = row.next<int>();
        int64_t least = std::numeric_limits<int64_t>::max();
        for (int rank = 0; rank < ranks; ++rank) {
          const int64_t written = steps_in(paths.events(attempt, rank));
          CHECK(steps_of_rank.value<int64_t>(run, attempt, rank) == written);
          least = std::min(least, written);
        }
        CHECK(row.next<std::optional<int64_t>>() == least);
      });
  CHECK(attempts > 0);
  CHECK(number(results / "results.sqlite",
               "select count(*) from attempts where status = 'running'") == 0);
}

std::string many_points(int count) {
  std::string points;
  for (int i = 0; i < count; ++i) {
    points += "  - {name: p" + std::to_string(i) + ", strategy: {kind: ddp, ranks: 2}}\n";
  }
  return points;
}

TEST_CASE("two runners of different experiments share a results folder and lose nothing") {
  const Workplace workplace(many_points(8), "{train.steps: 30, device: cpu}");
  const std::string text = text_of(workplace / "experiment.yaml");
  std::ofstream(workplace / "other.yaml") << "experiment: other" << text.substr(text.find('\n'));
  std::vector<std::unique_ptr<Program>> runners;
  for (const std::string file : {"experiment.yaml", "other.yaml"}) {
    runners.push_back(std::make_unique<Program>(workplace / ".", workplace.command({file}),
                                                Variables{{"STUB_STEP_MS", "1"}}));
  }
  for (const auto& runner : runners) {
    const Ended ended = runner->wait();
    INFO(ended.errors);
    CHECK(ended.status == 0);
  }
  for (const std::string experiment : {"trial", "other"}) {
    const auto found = Store(workplace.results()).comparison(experiment);
    REQUIRE(found.size() == 8);
    for (const ComparisonRow& row : found) {
      CHECK(row.status == RunStatus::kFinished);
      CHECK(row.steps == 30);
    }
  }
  check_is_whole(workplace.results() / "results.sqlite");
  check_holds_all_events(workplace.results());
}

// FSDP_TEST_KILLS and FSDP_TEST_SEED in the environment change the number and the moments of kills.
TEST_CASE(
    "a runner killed by signal 9 at random points leaves a whole database, the next goes on") {
  const auto setting = [](const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : std::atoi(value);
  };
  std::mt19937 random(static_cast<unsigned>(setting("FSDP_TEST_SEED", 1)));
  const Workplace workplace(kTwoPoints, "{train.steps: 25, device: cpu}");
  const std::filesystem::path database = workplace.results() / "results.sqlite";
  const auto start = [&] {
    return std::make_unique<Program>(workplace / ".",
                                     workplace.command({"experiment.yaml", "--rerun"}),
                                     Variables{{"STUB_STEP_MS", "2"}});
  };
  const auto begin = std::chrono::steady_clock::now();
  CHECK(start()->wait().status == 0);
  const std::chrono::duration<double> whole_time = std::chrono::steady_clock::now() - begin;
  std::uniform_real_distribution<double> part(0, 1);
  for (int kill_number = 0; kill_number < setting("FSDP_TEST_KILLS", 10); ++kill_number) {
    auto runner = start();
    std::this_thread::sleep_for(part(random) * whole_time);
    runner->send(SIGKILL);
    runner->wait();
    for (const pid_t process : workplace.reported_processes()) REQUIRE(gone_soon(process));
    check_is_whole(database);
  }
  Ended ended;
  REQUIRE(soon([&] {  // the supervisor of a killed runner may still hold the lock
    ended = start()->wait();
    return ended.errors.find("another fsdp-run") == std::string::npos;
  }));
  INFO(ended.errors);
  CHECK(ended.status == 0);
  for (const ComparisonRow& row : rows(workplace)) CHECK(row.steps == 25);
  check_is_whole(database);
  check_holds_all_events(workplace.results());
}

// Fills the file system of the database, of 2 MiB, in a mount namespace of its own.
constexpr const char* kFullDisk = R"sh(
set -eu
mount -t tmpfs -o size=2m none small || exit 99
mkdir big small/results
ln -s ../../big small/results/runs
"$@" first.yaml --results small/results
cat /dev/zero > small/filler 2>/dev/null || true
truncate -s -200K small/filler
"$@" second.yaml --results small/results 2> full.txt & runner=$!
until grep -q 'waits to record results: ' full.txt || ! kill -0 $runner; do sleep 0.05; done
rm small/filler
status=0
wait $runner || status=$?
echo $status > full.status
cp small/results/results.sqlite after.sqlite
)sh";

// Runs the script full_disk.sh. Its argument is a program that calls fsdp-run with the trainer.
Ended in_mount_namespace(const Workplace& workplace, const Variables& variables = {}) {
  const std::string unshare = geteuid() == 0 ? "unshare -m" : "unshare -rm";
  const std::string trainer = STUB_TRAINER_PROGRAM;
  std::ofstream(workplace / "run.sh")
      << "#!/bin/sh\nexec " FSDP_RUN_PROGRAM " \"$@\" --trainer " << trainer << "\n";
  std::filesystem::permissions(workplace / "run.sh", std::filesystem::perms::owner_all);
  return Program(workplace / ".", {"/bin/sh", "-c", unshare + " sh full_disk.sh ./run.sh"},
                 variables)
      .wait();
}

TEST_CASE("a full disk is told and waited for, and nothing is lost") {
  const Workplace workplace("  - {name: one}\n");
  std::filesystem::create_directory(workplace / "small");
  const auto write = [&](const std::string& name, int steps) {
    std::ofstream(workplace / (name + ".yaml"))
        << "experiment: " << name << "\nbase: {device: cpu, train.steps: " << steps
        << "}\npoints: [{name: one}]\n";
  };
  write("first", 100);
  write("second", 5'000);
  std::ofstream(workplace / "full_disk.sh") << kFullDisk;
  const Ended ended = in_mount_namespace(workplace);
  if (!std::filesystem::exists(workplace / "big")) {
    WARN("skipped: a file system cannot be mounted here: " << ended.errors);
    return;
  }
  INFO(ended.errors);
  REQUIRE(ended.status == 0);
  const std::string errors = text_of(workplace / "full.txt");
  CHECK_THAT(errors, Contains("waits to record results: small/results/results.sqlite: ") &&
                         Contains("full") && Contains("free space on its file system"));
  CHECK(first_line_of(workplace / "full.status") == "0");
  const std::string steps_of =
      "select count(*) from steps s join runs r on r.id = s.run where "
      "r.experiment = ";
  check_is_whole(workplace / "after.sqlite");
  CHECK(number(workplace / "after.sqlite", steps_of + "'first'") == 100);
  CHECK(number(workplace / "after.sqlite",
               "select min(steps) from comparison where status = 'finished'") == 100);
  CHECK(number(workplace / "after.sqlite", "select max(steps) from comparison") == 5'000);
}

// Like kFullDisk, but the ranks write to the full file system, too. It has 6 MiB.
constexpr const char* kFullDiskOfRanks = R"sh(
set -eu
mount -t tmpfs -o size=6m none small || exit 99
mkdir big
"$@" experiment.yaml --results small/results 2> full.txt & runner=$!
until grep -q 'one: started' full.txt || ! kill -0 $runner; do sleep 0.05; done
cat /dev/zero > small/filler 2>/dev/null || true
touch is_full
until grep -q 'waits to record results: ' full.txt || ! kill -0 $runner; do sleep 0.05; done
rm small/filler
status=0
wait $runner || status=$?
cp -r small/results results
exit $status
)sh";

TEST_CASE("ranks train on while their disk is full, and lose no event") {
  const Workplace workplace("  - {name: one, strategy: {kind: ddp, ranks: 2}}\n",
                            "{device: cpu, train.steps: 1500}");
  std::filesystem::create_directory(workplace / "small");
  std::ofstream(workplace / "full_disk.sh") << kFullDiskOfRanks;
  const Ended ended = in_mount_namespace(
      workplace,
      {{"STUB_STEP_MS", "2"}, {"STUB_RULES", "step=3,await=" + (workplace / "is_full").string()}});
  if (!std::filesystem::exists(workplace / "big")) {
    WARN("skipped: a file system cannot be mounted here: " << ended.errors);
    return;
  }
  INFO(text_of(workplace / "full.txt"));
  CHECK(ended.status == 0);
  CHECK(rows(workplace)[0].status == RunStatus::kFinished);
  CHECK(rows(workplace)[0].steps == 1500);
  check_holds_all_events(workplace.results());
}

}  // namespace
}  // namespace fsdp
