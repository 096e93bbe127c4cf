#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "runner/run/supervised_launches.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

std::optional<int64_t> kills_in(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "vmstat") << text;
  return out_of_memory_kills(folder / "vmstat");
}

TEST_CASE("the kernel's count of processes that it ended for want of memory is read") {
  CHECK(kills_in("nr_free_pages 12\noom_kill 3\ndrop_slab 0\n") == 3);
  CHECK(kills_in("nr_free_pages 12\n") == std::nullopt);
  CHECK(kills_in("oom_kill many\n") == std::nullopt);
  CHECK(out_of_memory_kills("/no/such/file") == std::nullopt);
}

std::vector<CgroupMemory> counts(int64_t own_kills, int64_t job_hits, int64_t slice_hits = 0) {
  std::vector<CgroupMemory> cgroups(3);
  cgroups[0] = {.folder = "/slice/job/step", .kills = own_kills};
  cgroups[1] = {.folder = "/slice/job", .limit_bytes = 700, .limit_hits = job_hits};
  cgroups[2] = {.folder = "/slice", .limit_bytes = 900, .limit_hits = slice_hits};
  return cgroups;
}

TEST_CASE("a limit ended a process if it was hit and a process of the own cgroup was ended") {
  const auto limit = [](const auto& before, const auto& after) {
    const std::optional<LimitKills> kills = limit_kills(before, after);
    return kills ? kills->limit_bytes : 0;
  };
  CHECK(limit(counts(1, 4), counts(2, 5)) == 700);
  CHECK(limit(counts(1, 4, 7), counts(2, 4, 8)) == 900);
  CHECK(limit(counts(1, 4, 7), counts(2, 5, 8)) == 700);
  // The limit was hit, but the kernel killed nothing: somebody called kill -9.
  CHECK_FALSE(limit_kills(counts(1, 4), counts(1, 99)));
  // No limit was hit: the host's memory ran out.
  CHECK_FALSE(limit_kills(counts(1, 4), counts(2, 4)));
  CHECK_FALSE(limit_kills({}, {}));
  CHECK_FALSE(limit_kills({}, counts(2, 5)));
}

TEST_CASE("of kills for a limit, those of all below it are counted, and what is held afterwards") {
  std::vector<CgroupMemory> after = counts(2, 5);
  after[1].held_bytes = 300;
  after[2].held_bytes = 800;
  std::optional<LimitKills> kills = limit_kills(counts(1, 4), after);
  CHECK(kills->count == 1);
  CHECK(kills->held_bytes == 300);
  after[1].kills = 3;
  CHECK(limit_kills(counts(1, 4), after)->count == 3);
}

TEST_CASE("kills of hours ago are not counted, those of the last half minute are") {
  using std::chrono::seconds;
  const auto start = KillsBefore::Clock::now();
  KillsBefore before({.of_host = 1, .cgroups = {}}, start);
  CHECK_FALSE(before.is_due(start + seconds(29)));
  REQUIRE(before.is_due(start + seconds(30)));
  before.note({.of_host = 2, .cgroups = {}}, start + seconds(30));
  CHECK(before.counts().of_host == 1);
  CHECK_FALSE(before.is_due(start + seconds(59)));
  REQUIRE(before.is_due(start + seconds(60)));
  before.note({.of_host = 3, .cgroups = {}}, start + seconds(60));
  CHECK(before.counts().of_host == 2);
}

TEST_CASE("a rank killed by signal 9 while memory ran out is told with what takes less") {
  ProcessEnd ended;
  ended.outcome = LaunchOutcome::kFailed;
  ended.first_rank = 1;
  ended.wait_status = SIGKILL;
  CHECK(attempt_end({}, ended).reason == "rank 1 killed by signal 9");
  ended.memory_ran_out = true;
  CHECK_THAT(attempt_end({}, ended).reason,
             Catch::StartsWith("rank 1 killed by signal 9: meanwhile the kernel ended a process "
                               "because the host's memory ran out; ") &&
                 Catch::Contains("use a smaller model"));
  CHECK(attempt_end({}, ended).outcome == LaunchOutcome::kFailed);
  ended.ranks_killed = 1;
  ended.limit_kills = {.limit_bytes = 700 << 20, .count = 1};
  CHECK_THAT(attempt_end({}, ended).reason,
             Catch::StartsWith("rank 1 killed by signal 9 because the memory limit of its job or "
                               "container (cgroup), 700 MiB, was reached; ") &&
                 Catch::Contains("use a smaller model"));
  CHECK(attempt_end({}, ended).outcome == LaunchOutcome::kOutOfMemory);
  ended.was_alone = false;  // the other run may have taken the memory
  CHECK(attempt_end({}, ended).outcome == LaunchOutcome::kFailed);
  CHECK_THAT(attempt_end({}, ended).reason, Catch::Contains("--max-parallel 1"));
  ended.was_alone = true;
  ended.limit_kills->held_bytes = 120 << 20;  // by a shell and an editor
  CHECK(attempt_end({}, ended).outcome == LaunchOutcome::kOutOfMemory);
  ended.limit_kills->held_bytes = 350 << 20;
  CHECK(attempt_end({}, ended).outcome == LaunchOutcome::kFailed);
  CHECK_THAT(attempt_end({}, ended).reason,
             Catch::Contains("was reached; other programs hold 350 MiB of it: "));
  ended.limit_kills = {.limit_bytes = 700 << 20, .count = 2};
  CHECK(attempt_end({}, ended).outcome == LaunchOutcome::kFailed);
  CHECK_THAT(attempt_end({}, ended).reason, Catch::Contains("it also ended other programs"));
  ended.wait_status = SIGTERM;
  CHECK(attempt_end({}, ended).reason == "rank 1 killed by signal 15");
}

}  // namespace
}  // namespace fsdp
