#include "runner/export/published_folder.h"

#include <catch2/catch.hpp>

#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

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

}  // namespace
}  // namespace fsdp
