#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <system_error>

#include "runner/run/locks.h"
#include "tests/temporary_folder.h"

using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

// Acts as a separate host for claims.
class Host : public TemporaryFolder {
 public:
  Host() { setenv("TMPDIR", path().c_str(), 1); }
  ~Host() { unsetenv("TMPDIR"); }

  std::filesystem::path claims() const { return path() / "fsdp-run.devices"; }
  size_t claim_count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(claims()), {}));
  }
};

std::optional<DeviceClaim> take(const DeviceNames& devices, std::string& holders,
                                bool share = false) {
  return DeviceClaim::take(devices, "the runner of 'lab'", share, holders);
}

}  // namespace

TEST_CASE("devices that a runner has claimed are refused to others until it ends") {
  const Host host;
  std::string holders;
  {
    const auto first = take({"cpu0", "cpu1"}, holders);
    REQUIRE(first);
    CHECK(holders.empty());
    CHECK_FALSE(take({"cpu1", "cpu2"}, holders));
    CHECK(holders == "the runner of 'lab'");
    CHECK(take({"cpu2", "GPU-1"}, holders));
    CHECK(holders.empty());
  }
  CHECK(take({"cpu1"}, holders));
  CHECK(host.claim_count() == 0);
}

TEST_CASE("runners that share devices see each other") {
  const Host host;
  std::string holders;
  const auto first = take({"cpu0"}, holders);
  REQUIRE(first);
  CHECK(take({"cpu0", "cpu1"}, holders, /*share=*/true));
  CHECK(holders == "the runner of 'lab'");
}

TEST_CASE("a lock that another user keeps on the claims is an error, no hang") {
  const Host host;
  std::string holders;
  CHECK(take({"cpu0"}, holders));
  const int folder = open(host.claims().c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(flock(folder, LOCK_EX) == 0);
  CHECK_THROWS_AS(take({"cpu0"}, holders), std::system_error);
  close(folder);
  CHECK(take({"cpu0"}, holders));
}

TEST_CASE("a folder that its maker left closed to others is opened to them") {
  const Host host;
  mkdir(host.claims().c_str(), 0700);
  std::string holders;
  CHECK(take({"cpu0"}, holders));
  CHECK(std::filesystem::status(host.claims()).permissions() ==
        (std::filesystem::perms::all | std::filesystem::perms::sticky_bit));
}

TEST_CASE("what others call themselves is cut where it has no end") {
  const Host host;
  std::string holders;
  const auto first = DeviceClaim::take({"cpu0"}, std::string(5'000, 'x'), false, holders);
  CHECK_FALSE(take({"cpu0"}, holders));
  CHECK(holders.size() == 200);
}

TEST_CASE("the claim of a runner that was killed is none") {
  const Host host;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t runner = fork();
  if (runner == 0) {
    std::string holders;
    const auto claim = take({"cpu0"}, holders);
    if (claim) [[maybe_unused]]
      const ssize_t written = write(ready[1], "r", 1);
    pause();
  }
  char claimed = 0;
  REQUIRE(read(ready[0], &claimed, 1) == 1);
  std::string holders;
  CHECK_FALSE(take({"cpu0"}, holders));
  kill(runner, SIGKILL);
  waitpid(runner, nullptr, 0);
  CHECK(host.claim_count() == 1);
  CHECK(take({"cpu0"}, holders));
  CHECK(host.claim_count() == 0);
}

TEST_CASE("what others put into the folder of claims is no claim, and stays") {
  const Host host;
  std::filesystem::create_directory(host.claims());
  host.write("outside", "the runner of 'x'\ncpu0\n");
  REQUIRE(mkfifo((host.claims() / "runner-pipe").c_str(), 0666) == 0);
  std::filesystem::create_symlink(host / "outside", host.claims() / "runner-link");
  std::filesystem::create_directory(host.claims() / "runner-folder");
  host.write("fsdp-run.devices/notes", "cpu0\n");
  std::string holders;
  CHECK(take({"cpu0"}, holders));
  CHECK(std::filesystem::exists(host / "outside"));
  CHECK(std::filesystem::exists(host.claims() / "notes"));
}

TEST_CASE("a folder of claims that cannot be used is named") {
  const Host host;
  std::string holders;
  SECTION("a file") { host.write("fsdp-run.devices", ""); }
  SECTION("a link to another folder") {
    std::filesystem::create_directory(host / "other");
    std::filesystem::create_symlink(host / "other", host.claims());
  }
  CHECK_THROWS_AS(take({"cpu0"}, holders), std::system_error);
  CHECK_THROWS_WITH(take({"cpu0"}, holders), Contains(host.claims().string()));
}

TEST_CASE("own_cores names those that this process may use") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  CPU_SET(core, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(own_cores("n1") == DeviceNames{"n1:cpu" + std::to_string(core)});
  sched_setaffinity(0, sizeof before, &before);
}
