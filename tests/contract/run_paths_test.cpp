#include "contract/record/run_paths.h"

#include <catch2/catch.hpp>
#include <map>

#include "tests/temporary_folder.h"

using namespace fsdp;

TEST_CASE("names that differ have names of files that differ, which a file system takes") {
  const std::string longest(200, 'x');
  const std::vector<std::string> names{"",
                                       "run",
                                       "-",
                                       ".",
                                       "..",
                                       "lab",
                                       "Lab",
                                       "my lab",
                                       "my-lab",
                                       "my/lab",
                                       "my lab-",
                                       "2 layers",
                                       "2-layers",
                                       "2--layers",
                                       "実験",
                                       "试验",
                                       "é",
                                       "e",
                                       "a~b",
                                       "a-b",
                                       longest,
                                       longest + "y",
                                       longest.substr(0, 199) + "z",
                                       "lab\n",
                                       " lab"};
  std::map<std::string, std::string> owners;
  for (const std::string& name : names) {
    const std::string file = file_name_of(name);
    CAPTURE(name, file, owners[file]);
    CHECK(owners[file].empty());
    owners[file] = name.empty() ? "(empty)" : name;
    CHECK(file.size() <= 129);
    CHECK_FALSE(file.empty());
    CHECK(file.front() != '.');
    CHECK(file.find('/') == std::string::npos);
  }
  for (const std::string name : {"lab", "4xDDP", "a_b", "v1.2", "2-layers"}) {
    CHECK(file_name_of(name) == name);
  }
}

TEST_CASE("a new attempt comes after all that have a folder") {
  const TemporaryFolder folder;
  CHECK(first_free_attempt(RunPaths(folder / "none")) == 1);
  const RunPaths paths(folder.path());
  CHECK(first_free_attempt(paths) == 1);
  for (const char* name : {"attempt-2", "attempt-10", "attempt-", "attempt-11.old", "attempt--12",
                           "attempt-99999999999999999999"}) {
    std::filesystem::create_directory(folder / name);
  }
  CHECK(first_free_attempt(paths) == 11);
  CHECK(attempts_with_folder(paths) == std::vector{2, 10});
}
