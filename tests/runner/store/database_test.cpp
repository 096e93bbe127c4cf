#include "runner/store/database.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

// Sends temporary files to `folder` during its lifetime.
class TemporaryFilesIn {
 public:
  explicit TemporaryFilesIn(const std::filesystem::path& folder)
      : before_(std::filesystem::temp_directory_path()) {
    setenv("TMPDIR", folder.c_str(), 1);
  }
  ~TemporaryFilesIn() { setenv("TMPDIR", before_.c_str(), 1); }
  TemporaryFilesIn(const TemporaryFilesIn&) = delete;
  TemporaryFilesIn& operator=(const TemporaryFilesIn&) = delete;

 private:
  std::filesystem::path before_;
};

// The journal is a socket, which can neither be opened nor copied.
TEST_CASE("a copy that fails leaves no temporary files") {
  const TemporaryFolder source, temporary;
  const std::filesystem::path file = source / "results.sqlite";
  Database(file).execute("create table figures (value real)");
  const std::string journal = file.string() + "-journal";
  std::filesystem::remove(journal);
  REQUIRE(mknod(journal.c_str(), S_IFSOCK | 0600, 0) == 0);
  const TemporaryFilesIn here(temporary.path());
  REQUIRE_THROWS_WITH(Database::copy_of(file), Catch::Contains(journal));
  CHECK(std::filesystem::is_empty(temporary.path()));
}

TEST_CASE("a pipe in the place of a database is refused, not waited for") {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "results.sqlite";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(Database::copy_of(pipe), Catch::Contains("is no file"));
  CHECK_THROWS_WITH(Database(pipe), Catch::Contains("is no file"));
}

// A column holds whatever was put there. SQLite would read text as 0, and cut 2.5 to 2.
TEST_CASE("what is no number is not read as one") {
  const TemporaryFolder folder;
  Database database(folder / "results.sqlite");
  database.execute("create table figures (value)");
  Statement read(database, "select value from figures");
  const auto holds = [&](const std::string& value) {
    database.execute("delete from figures; insert into figures values (" + value + ")");
  };
  const auto refused = Catch::Contains("'value' does not hold");
  for (const char* value : {"'12'", "x'00'"}) {
    holds(value);
    CHECK_THROWS_WITH(read.value<double>(), refused);
    CHECK_THROWS_WITH(read.value<int64_t>(), refused);
  }
  holds("2.5");
  CHECK(read.value<double>() == 2.5);
  CHECK_THROWS_WITH(read.value<int64_t>(), refused);
  holds("4294967297");
  CHECK(read.value<int64_t>() == 4294967297);
  CHECK_THROWS_WITH(read.value<int>(), refused);
  CHECK_THROWS_WITH(read.value<bool>(), refused);
}

}  // namespace
}  // namespace fsdp
