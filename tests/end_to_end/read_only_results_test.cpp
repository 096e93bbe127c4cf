#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "runner/store/database.h"
#include "tests/end_to_end/stub_runs.h"

// Results that a user can read but not write: a folder of others, a read-only mount, a snapshot.
namespace fsdp {
namespace {

const std::vector<std::vector<std::string>> kReaders{
    {"report"},
    {"report", "--format", "html"},
    {"status"},
    {"explain", "first", "--trainer", STUB_TRAINER_PROGRAM},
    {"diff", "first", "second"},
    {"why", "first", "second", "--trainer", STUB_TRAINER_PROGRAM},
    {"logs", "first"},
    {"export", "--to", "exported"}};

constexpr const char* kReadOnly = R"sh(
set -eu
mount --bind results results || exit 99
mount -o remount,ro,bind results || exit 99
! touch results/new 2>/dev/null
exec "$@"
)sh";

// Runs fsdp-run with the results folder mounted read-only. Status 99: this host refuses the mount.
Ended call_read_only(const Workplace& workplace, std::vector<std::string> arguments) {
  std::filesystem::remove_all(workplace / "exported");
  std::ofstream(workplace / "read_only.sh") << kReadOnly;
  std::vector<std::string> command{"/usr/bin/unshare", geteuid() == 0 ? "-m" : "-rm", "/bin/sh",
                                   "read_only.sh", FSDP_RUN_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Program(workplace / ".", command).wait();
}

// Kills a writer in a transaction. Some of its pages are in the file, and the journal is beside it.
void kill_a_writer(const std::filesystem::path& file) {
  const pid_t writer = fork();
  if (writer == 0) {
    Database database(file);
    database.execute(
        "pragma cache_size = 1; begin immediate; update runs set status = 'failed'; "
        "create table unfinished as with recursive n (i) as "
        "(select 1 union all select i + 1 from n where i < 500) select randomblob(1000) from n");
    raise(SIGKILL);
  }
  waitpid(writer, nullptr, 0);
  REQUIRE(std::filesystem::file_size(file.string() + "-journal") > 0);
}

TEST_CASE("every command that only reads says of a read-only folder what it says of another") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  std::vector<Ended> expected;
  for (const std::vector<std::string>& reader : kReaders) {
    expected.push_back(workplace.call(reader));
  }
  SECTION("as it was left") {}
  SECTION("by a writer that was killed") { kill_a_writer(workplace.results() / "results.sqlite"); }
  for (size_t i = 0; i < kReaders.size(); ++i) {
    const Ended ended = call_read_only(workplace, kReaders[i]);
    if (ended.status == 99) {
      WARN("skipped: nothing can be mounted here: " << ended.errors);
      return;
    }
    CAPTURE(kReaders[i], ended.errors);
    CHECK(ended.status == 0);
    CHECK(ended.errors == expected[i].errors);
    CHECK(ended.output == expected[i].output);
  }
}

}  // namespace
}  // namespace fsdp
