#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>

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
  Statement(
      database,
      "select r.id, a.attempt, r.folder, r.spec ->> '$.strategy.ranks', s.steps from attempts a "
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
    runners.push_back(
        std::make_unique<Program>(workplace / ".", workplace.command({file}), Variables()));
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

// FSDP_TEST_EVERY_CALL=1 in the environment tries each call, not some early and late ones.
TEST_CASE("a runner killed by signal 9 at any call leaves a whole database, and the next goes on") {
  const bool every_call = std::getenv("FSDP_TEST_EVERY_CALL") != nullptr;
  const Workplace workplace(kTwoPoints, "{train.steps: 25, device: cpu}");
  const std::filesystem::path database = workplace.results() / "results.sqlite";
  // The supervisor of a runner that was killed may still hold the lock.
  const auto run = [&](const Variables& variables) {
    Ended ended;
    REQUIRE(soon([&] {
      ended = workplace.run({"experiment.yaml", "--rerun"}, variables);
      return ended.errors.find("another fsdp-run") == std::string::npos;
    }));
    return ended;
  };
  CHECK(run({}).status == 0);
  int killed = 0;
  Ended ended;
  ended.status = 128 + SIGKILL;
  for (int call = 2; ended.status == 128 + SIGKILL; call += every_call ? 1 : call / 2, ++killed) {
    CAPTURE(call);
    ended = run({{"LD_PRELOAD", KILL_AT_CALL_LIBRARY},
                 {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                 {"KILL_AT_CALL", std::to_string(call)}});
    for (const pid_t process : workplace.reported_processes()) REQUIRE(gone_soon(process));
    check_is_whole(database);
  }
  CHECK(killed > 8);
  ended = run({});
  INFO(ended.errors);
  CHECK(ended.status == 0);
  for (const ComparisonRow& row : rows(workplace)) CHECK(row.steps == 25);
  check_is_whole(database);
  check_holds_all_events(workplace.results());
}

// Fills the file system of the database and of the ranks' files, of 6 MiB, in a mount namespace of
// its own.
constexpr const char* kFullDisk = R"sh(
set -eu
mount -t tmpfs -o size=6m none small || exit 99
mkdir big
"$@" experiment.yaml --results small/results 2> full.txt & runner=$!
until grep -q 'one: started' full.txt || ! kill -0 $runner; do sleep 0.05; done
cat /dev/zero > small/filler 2>/dev/null || true
touch is_full
until grep -q 'tables lack the newest results' full.txt || ! kill -0 $runner; do sleep 0.05; done
rm small/filler
status=0
wait $runner || status=$?
cp -r small/results results
exit $status
)sh";

TEST_CASE("a full disk is told and waited for: ranks train on, and no event is lost") {
  const Workplace workplace("  - {name: one, strategy: {kind: ddp, ranks: 2}}\n",
                            "{device: cpu, train.steps: 1500}");
  std::filesystem::create_directory(workplace / "small");
  std::ofstream(workplace / "full_disk.sh") << kFullDisk;
  const std::string unshare = geteuid() == 0 ? "unshare -m" : "unshare -rm";
  const std::string trainer = STUB_TRAINER_PROGRAM;
  std::ofstream(workplace / "run.sh")
      << "#!/bin/sh\nexec " FSDP_RUN_PROGRAM " \"$@\" --trainer " << trainer << "\n";
  std::filesystem::permissions(workplace / "run.sh", std::filesystem::perms::owner_all);
  const Ended ended =
      Program(workplace / ".", {"/bin/sh", "-c", unshare + " sh full_disk.sh ./run.sh"},
              {{"STUB_RULES", "step=3,await=" + (workplace / "is_full").string()}})
          .wait();
  if (!std::filesystem::exists(workplace / "big")) {
    WARN("skipped: a file system cannot be mounted here: " << ended.errors);
    return;
  }
  const std::string errors = text_of(workplace / "full.txt");
  INFO(errors);
  CHECK(ended.status == 0);
  CHECK_THAT(errors, Contains("which are in their files: small/results/results.sqlite: ") &&
                         Contains("full") && Contains("free space on its file system"));
  CHECK(rows(workplace)[0].status == RunStatus::kFinished);
  CHECK(rows(workplace)[0].steps == 1500);
  check_holds_all_events(workplace.results());
}

}  // namespace
}  // namespace fsdp
