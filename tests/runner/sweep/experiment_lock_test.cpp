#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "runner/run/locks.h"
#include "tests/runner/store/store_fixture.h"

using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

int flock_fails_with = 0;  // an errno; 0: it does not fail

}  // namespace

// The linker finds this function before the C library's.
extern "C" int flock(int descriptor, int operation) noexcept {
  if (flock_fails_with == 0) return static_cast<int>(syscall(SYS_flock, descriptor, operation));
  errno = flock_fails_with;
  return -1;
}

TEST_CASE("a runner that starts waits for a process that only asks Slurm about the jobs") {
  const ResultsFolder results;
  auto asking = ExperimentLock::for_a_moment(results.path(), "lab");
  REQUIRE(asking);
  std::vector<std::string> said;
  const ExperimentLock runner(results.path(), "lab", [&](const std::string& line) {
    said.push_back(line);
    asking.reset();
  });
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Contains("waits for process ") && Contains("asks Slurm about its jobs"));
  CHECK_FALSE(ExperimentLock::for_a_moment(results.path(), "lab"));
}

TEST_CASE("a runner that starts does not wait for another runner") {
  const ResultsFolder results;
  const auto say = [](const std::string& line) { FAIL(line); };
  const ExperimentLock first(results.path(), "lab", say);
  CHECK_THROWS_WITH(ExperimentLock(results.path(), "lab", say),
                    Contains("another fsdp-run (process ") && Contains("is at work on 'lab'"));
  const ExperimentLock other(results.path(), "other", say);
}

TEST_CASE("a file system without locks is not taken for another runner") {
  const ResultsFolder results;
  const auto say = [](const std::string& line) { FAIL(line); };
  const std::string file = (results.path() / ".lab.lock").string();
  std::string owner;
  flock_fails_with = GENERATE(ENOSYS, ENOLCK);
  const std::string cause = std::strerror(flock_fails_with);
  CHECK_THROWS_WITH(ExperimentLock(results.path(), "lab", say),
                    StartsWith("cannot lock " + file) && Contains("Lustre: with -o flock") &&
                        Contains("--results") && EndsWith(cause));
  CHECK_THROWS_WITH(ExperimentLock::for_a_moment(results.path(), "lab"), EndsWith(cause));
  CHECK_THROWS_WITH(ExperimentLock::if_free(results.path(), "lab", owner), EndsWith(cause));
  flock_fails_with = 0;
  const ExperimentLock runner(results.path(), "lab", say);
}
