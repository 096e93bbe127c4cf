#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "runner/store/run_files.h"
#include "tests/runner/store/store_fixture.h"

// Which files are on the disk when a function returns.
namespace {

std::vector<std::filesystem::path> synced;

}  // namespace

// Takes the place of libc's in this program.
extern "C" int fsync(int descriptor) {
  synced.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)));
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

namespace fsdp {
namespace {

TEST_CASE("what an attempt left is on the disk before the verdict on it") {
  const ResultsFolder results;
  const RunPaths run(results.path() / "run");
  std::filesystem::create_directories(run.attempt(1));
  const auto left = {run.launch_record(1), run.events(1, 0), run.events(1, 1)};
  for (const auto& file : left) std::ofstream(file) << "{}\n";
  std::filesystem::create_symlink("/etc/hostname", run.attempt(1) / "link.json");
  synced.clear();
  write_verdict(run, 1, {.status = RunStatus::kFinished});
  REQUIRE(synced.size() == 5);
  const std::set<std::filesystem::path> before(synced.begin(), synced.begin() + 3);
  CHECK(before == std::set<std::filesystem::path>(left));
  CHECK(synced[3].filename().string().starts_with(".fsdp-run-"));  // verdict.json
  CHECK(synced[4] == run.attempt(1));
}

}  // namespace
}  // namespace fsdp
