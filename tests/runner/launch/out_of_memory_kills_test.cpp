#include <signal.h>

#include <catch2/catch.hpp>

#include "runner/run/judgement.h"
#include "runner/run/supervised_launches.h"

namespace fsdp {
namespace {

TEST_CASE("a rank killed by signal 9 while memory ran out is told with what takes less") {
  ProcessEnd ended;
  ended.outcome = LaunchOutcome::kFailed;
  ended.first_rank = 1;
  ended.wait_status = SIGKILL;
  const std::vector<RankState> silent(2);
  const AttemptEnd unexplained = attempt_end({}, ended);
  CHECK(unexplained.reason == "rank 1 killed by signal 9 (memory may have run out: see dmesg)");
  CHECK(judge(silent, unexplained).status == RunStatus::kFailed);
  ended.memory_ran_out = true;
  const AttemptEnd explained = attempt_end({}, ended);
  CHECK_THAT(explained.reason,
             Catch::StartsWith("rank 1 killed by signal 9: meanwhile the kernel ended a process "
                               "because memory of the host, ") &&
                 Catch::Contains("use a smaller model"));
  CHECK(judge(silent, explained).status == RunStatus::kOutOfHostMemory);
  ended.wait_status = SIGTERM;
  CHECK(attempt_end({}, ended).reason == "rank 1 killed by signal 15");
}

}  // namespace
}  // namespace fsdp
