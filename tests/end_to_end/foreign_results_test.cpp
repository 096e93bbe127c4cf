#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>

#include "runner/store/database.h"
#include "tests/end_to_end/stub_runs.h"

// Results folders without a database of fsdp-run.
using namespace fsdp;
using Catch::Matchers::Contains;
using std::filesystem::path;

namespace {

const std::vector<std::vector<std::string>> kReaders{{"report"},
                                                     {"status"},
                                                     {"logs", "one"},
                                                     {"explain", "one"},
                                                     {"diff", "one", "two"},
                                                     {"why", "one", "two"},
                                                     {"export", "--to", "exported"},
                                                     {"prune", "--not-current", "--yes"},
                                                     {"cancel", "one"}};

// Returns all files and folders below `folder`, each file with its bytes.
std::map<path, std::string> all_in(const path& folder) {
  std::map<path, std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::stringstream bytes;
    if (entry.is_regular_file()) bytes << std::ifstream(entry.path()).rdbuf();
    found[entry.path()] = bytes.str();
  }
  return found;
}

// Checks that all commands that read fail, and leave the results folder as it was.
void check_refused_by_all(const Workplace& workplace, const std::string& reason) {
  const bool is_there = std::filesystem::exists(workplace.results());
  const auto before = is_there ? all_in(workplace.results()) : std::map<path, std::string>();
  for (const std::vector<std::string>& reader : kReaders) {
    const Ended ended = workplace.call(reader);
    CAPTURE(reader[0], ended.output, ended.errors);
    CHECK(ended.status != 0);
    CHECK(ended.status < 128);
    CHECK_THAT(ended.errors, Contains(reason) && Contains("--results"));
    CHECK(std::filesystem::exists(workplace.results()) == is_there);
    if (is_there) CHECK(all_in(workplace.results()) == before);
  }
}

}  // namespace

TEST_CASE("commands that read make nothing where there are no results") {
  const Workplace workplace("  - {name: one}\n");
  SECTION("no folder") { check_refused_by_all(workplace, "there is no results.sqlite"); }
  SECTION("an empty folder") {
    std::filesystem::create_directory(workplace.results());
    check_refused_by_all(workplace, "there is no results.sqlite");
  }
  SECTION("an empty file") {
    std::filesystem::create_directory(workplace.results());
    std::ofstream(workplace.results() / "results.sqlite");
    check_refused_by_all(workplace, "holds no results yet");
  }
}

TEST_CASE("a database of another program is left as it is by every command") {
  const Workplace workplace("  - {name: one}\n");
  std::filesystem::create_directory(workplace.results());
  const path file = workplace.results() / "results.sqlite";
  Database(file).execute("create table notes (text); insert into notes values ('mine')");
  check_refused_by_all(workplace, "is not a database of fsdp-run");
  const auto before = all_in(workplace.results());
  const Ended run = workplace.run();
  CHECK(run.status != 0);
  CHECK_THAT(run.errors, Contains("is not a database of fsdp-run"));
  CHECK(all_in(workplace.results()) == before);
}
