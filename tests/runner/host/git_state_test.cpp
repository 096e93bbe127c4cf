#include "runner/host/git_state.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

void git(const TemporaryFolder& folder, const std::string& arguments) {
  const std::string command = "git -C " + folder.path().string() +
                              " -c user.name=a -c user.email=a@example.com " + arguments +
                              " >/dev/null 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
}

// PATH is `folder` alone for as long as the object is there.
class OnlyPath {
 public:
  explicit OnlyPath(const std::filesystem::path& folder) { setenv("PATH", folder.c_str(), 1); }
  ~OnlyPath() { setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_ = std::getenv("PATH");
};

TEST_CASE("the commit is known, and dirty are changes to files that git tracks") {
  const TemporaryFolder folder;
  CHECK(GitQuery(folder.path()).result().commit.empty());
  CHECK_FALSE(GitQuery(folder.path()).result().dirty);

  git(folder, "init");
  CHECK_FALSE(GitQuery(folder.path()).result().dirty);  // no commit yet
  folder.write("experiment.yaml", "one");
  git(folder, "add experiment.yaml");
  git(folder, "commit -m first");
  folder.write("untracked", "");
  std::filesystem::create_directory(folder / "below");
  const GitState clean = GitQuery(folder / "below").result();
  CHECK(clean.commit.size() == 40);
  CHECK(clean.dirty == false);

  folder.write("experiment.yaml", "two!");
  const GitState changed = GitQuery(folder.path()).result();
  CHECK(changed.commit == clean.commit);
  CHECK(changed.dirty == true);
}

TEST_CASE("without git, or a folder, the state is not known") {
  const TemporaryFolder folder;
  CHECK(GitQuery(folder / "missing").result().commit.empty());
  const OnlyPath path(folder.path());
  CHECK(GitQuery(folder.path()).result().commit.empty());
}

TEST_CASE("a git that does not answer in time is ended, and the state is not known") {
  const TemporaryFolder folder;
  const auto process_file = folder / "process";
  folder.write("git", "#!/bin/sh\necho '# branch.oid 0123'\necho $$ > " + process_file.string() +
                          "\nexec /bin/sleep 1000\n");
  std::filesystem::permissions(folder / "git", std::filesystem::perms::owner_all);
  pid_t process = 0;
  {
    const OnlyPath path(folder.path());
    GitQuery query(folder.path());
    while (!(std::ifstream(process_file) >> process)) {
    }
    CHECK(query.result(std::chrono::milliseconds(0)).commit.empty());
  }
  CHECK(kill(process, 0) != 0);
}

}  // namespace
}  // namespace fsdp
