#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <random>

#include "tests/end_to_end/pruned_runs.h"

// fsdp-run prune on a disk without a free byte or inode
using namespace fsdp;
using std::filesystem::path;

namespace {

// Prunes run `one`, or the checkpoints, on a small file system without a free byte or inode. The
// file system is in a mount namespace of its own. For each of DELAYS, kills prune on a fresh copy
// of the results and calls prune again.
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
for delay in ${DELAYS-}; do
  place
  timeout -s KILL $delay env TMPDIR=$PWD/small "$RUNNER" prune $words --yes --results small/results || true
  cp -r small/results killed-$delay
  prune || "$RUNNER" prune --not-current --yes --results small/results  # no run is named so any more
  cp -r small/results after-$delay
  umount small
done
)sh";

Ended prune_full_disk(const Workplace& workplace, const std::string& words,
                      const std::string& limits, const std::string& delays = "") {
  std::filesystem::create_directory(workplace / "small");
  std::ofstream(workplace / "full_disk.sh") << kPruneFullDisk;
  const std::string unshare = geteuid() == 0 ? "unshare -m" : "unshare -rm";
  return Program(workplace / ".",
                 {"/bin/sh", "-c", unshare + " sh full_disk.sh '" + words + "' " + limits},
                 {{"RUNNER", FSDP_RUN_PROGRAM}, {"DELAYS", delays}})
      .wait();
}

std::vector<std::string> points_in(const path& results) {
  std::vector<std::string> points;
  for (const RunRecord& run : Store(results).runs()) {
    CHECK(run.status == RunStatus::kFinished);
    points.push_back(run.point);
  }
  return points;
}

// Checks that run `one` is gone with its files and rows, and that run `two` is there.
void check_one_is_gone(const path& results) {
  CHECK(points_in(results) == std::vector<std::string>{"two"});
  const std::vector<std::string> folders = names_in(results / "runs/trial");
  REQUIRE(folders.size() == 1);
  CHECK_THAT(folders[0], Catch::StartsWith("two-"));
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
  const std::string words = GENERATE("one", "--checkpoints");
  const Ended ended = prune_full_disk(workplace, words, limits);
  if (ended.status == 99) {
    WARN("skipped: a file system cannot be mounted here: " << ended.errors);
    return;
  }
  INFO(words << " " << limits << ": " << text_of(workplace / "prune.txt") << ended.errors);
  CHECK(first_line_of(workplace / "prune.status") == "0");
  if (words == "one") return check_one_is_gone(workplace / "after");
  CHECK(points_in(workplace / "after").size() == 2);
  Database database(workplace / "after/results.sqlite");
  CHECK(Statement(database, "select count(*) from checkpoints").value<int64_t>() == 0);
  for (const RunRecord& run : Store(workplace / "after").runs()) {
    if (run.point != "one") continue;
    CHECK(names_in(workplace / "after" / run.folder / "checkpoints").empty());
  }
}

// FSDP_TEST_KILLS and FSDP_TEST_SEED in the environment change the number and the moments of kills.
TEST_CASE("a prune of a full disk that is killed at random moments is finished by the next") {
  const auto setting = [](const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : std::atoi(value);
  };
  const Workplace workplace("  - {name: one, train.steps: 2000}\n  - {name: two}\n");
  REQUIRE(workplace.run().status == 0);
  const path files = folder_of(workplace, 1) / "attempt-1";
  for (int i = 0; i < 1000; ++i) {  // removing them takes time
    std::ofstream(files / std::to_string(i)) << "file";
  }
  std::mt19937 random(static_cast<unsigned>(setting("FSDP_TEST_SEED", 1)));
  std::uniform_real_distribution<double> seconds(0.005, 0.08);
  std::vector<std::string> delays;
  for (int i = setting("FSDP_TEST_KILLS", 10); i > 0; --i) {
    delays.push_back(std::to_string(seconds(random)));
  }
  std::string words;
  for (const std::string& delay : delays) words += delay + " ";
  const Ended ended = prune_full_disk(workplace, "one", "size=16m", words);
  if (ended.status == 99) {
    WARN("skipped: a file system cannot be mounted here: " << ended.errors);
    return;
  }
  INFO(ended.errors);
  REQUIRE(ended.status == 0);
  check_one_is_gone(workplace / "after");
  for (const std::string& delay : delays) {
    INFO("killed after " << delay);
    points_in(workplace / ("killed-" + delay));
    check_one_is_gone(workplace / ("after-" + delay));
  }
}
