#include <unistd.h>

#include <catch2/catch.hpp>

#include "runner/export/export.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

TEST_CASE("a published folder takes its place as a whole, and nothing else is left") {
  const TemporaryFolder there;
  for (const std::string name : {"first", "second"}) {
    PublishedFolder published(there / "place/");
    std::ofstream(published.folder() / name) << name;
    CHECK(names_in(there.path()).size() == (name == "first" ? 1 : 2));
    published.publish();
    CHECK(names_in(there / "place") == std::vector{name});
  }
  CHECK(names_in(there.path()) == std::vector<std::string>{"place"});
}

TEST_CASE("a folder that is not published leaves what was there") {
  const TemporaryFolder there;
  std::filesystem::create_directory(there / "place");
  there.write("place/old", "");
  {
    const PublishedFolder published(there / "place");
    std::ofstream(published.folder() / "new") << "half of it";
  }
  CHECK(names_in(there / "place") == std::vector<std::string>{"old"});
  CHECK(names_in(there.path()) == std::vector<std::string>{"place"});
}

TEST_CASE("a link to a folder stays, and the folder that it means is replaced and keeps its mode") {
  const TemporaryFolder there;
  std::filesystem::create_directory(there / "place");
  std::filesystem::permissions(there / "place", std::filesystem::perms(0705));
  there.write("place/old", "");
  std::filesystem::create_directory_symlink("place", there / "link");
  {
    PublishedFolder published(there / "link");
    std::ofstream(published.folder() / "new") << "";
    published.publish();
  }
  CHECK(std::filesystem::is_symlink(there / "link"));
  CHECK(names_in(there / "place") == std::vector<std::string>{"new"});
  CHECK(std::filesystem::status(there / "place").permissions() == std::filesystem::perms(0705));
  CHECK(names_in(there.path()) == std::vector<std::string>{"link", "place"});
}

TEST_CASE("a folder that has the name of an unfinished one stays") {
  const TemporaryFolder there;
  const std::string name = ".place.partial-" + std::to_string(getpid());
  std::filesystem::create_directory(there / name);
  there.write(name + "/somebody's", "");
  PublishedFolder(there / "place").publish();
  CHECK(names_in(there / name) == std::vector<std::string>{"somebody's"});
}

}  // namespace
}  // namespace fsdp
