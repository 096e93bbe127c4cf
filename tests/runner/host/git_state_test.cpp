#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "runner/host/provenance.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

void git(const TemporaryFolder& folder, const std::string& arguments) {
  const std::string command = "git -C " + folder.path().string() +
                              " -c user.name=a -c user.email=a@example.com " + arguments +
                              " >/dev/null 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
}

// Sets PATH to `folder` alone during its lifetime.
class OnlyPath {
 public:
  explicit OnlyPath(const std::filesystem::path& folder) { setenv("PATH", folder.c_str(), 1); }
  ~OnlyPath() { setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_ = std::getenv("PATH");
};

TEST_CASE("the commit is known, and dirty are changes to files that git tracks") {
  const TemporaryFolder folder;
  CHECK(GitQuery(folder / "experiment.yaml").result().commit.empty());
  CHECK_FALSE(GitQuery(folder / "experiment.yaml").result().dirty);

  git(folder, "init");
  CHECK_FALSE(GitQuery(folder / "experiment.yaml").result().dirty);  // no commit yet
  folder.write("experiment.yaml", "one");
  git(folder, "add experiment.yaml");
  git(folder, "commit -m first");
  folder.write("untracked", "");
  std::filesystem::create_directory(folder / "below");
  const GitState clean = GitQuery(folder / "below/experiment.yaml").result();
  CHECK(clean.commit.size() == 40);
  CHECK(clean.dirty == false);

  folder.write("experiment.yaml", "two!");
  const GitState changed = GitQuery(folder / "experiment.yaml").result();
  CHECK(changed.commit == clean.commit);
  CHECK(changed.dirty == true);
}

TEST_CASE("a file that git does not track is not taken for one of the commit") {
  const TemporaryFolder folder;
  const auto untracked = [&](const std::string& file) {
    return GitQuery(folder / file).result().untracked;
  };
  folder.write("experiment.yaml", "one");
  CHECK(untracked("experiment.yaml") == true);  // no repository
  git(folder, "init");
  CHECK(untracked("experiment.yaml") == true);
  git(folder, "add experiment.yaml");
  CHECK(untracked("experiment.yaml") == true);  // no commit
  git(folder, "commit -m first");
  CHECK(untracked("experiment.yaml") == false);
  folder.write("experiment.yaml", "two");
  CHECK(untracked("experiment.yaml") == false);  // tracked, but changed

  std::filesystem::create_directory(folder / "below");
  folder.write("below/experiment.yaml", "one");
  folder.write("[e]xperiment.yaml", "one");
  folder.write(".gitignore", "ignored.yaml\n");
  folder.write("ignored.yaml", "one");
  for (const char* file : {"below/experiment.yaml", "[e]xperiment.yaml", "ignored.yaml"}) {
    CAPTURE(file);
    CHECK(untracked(file) == true);
    CHECK(GitQuery(folder / file).result().commit.size() == 40);
  }
}

TEST_CASE("without git, or a folder, the state is not known") {
  const TemporaryFolder folder;
  CHECK(GitQuery(folder / "missing/experiment.yaml").result().commit.empty());
  git(folder, "init");
  const OnlyPath path(folder.path());
  const GitState state = GitQuery(folder / "experiment.yaml").result();
  CHECK(state.commit.empty());
  CHECK_FALSE(state.untracked);
}

TEST_CASE("a git that does not answer in time is ended, and the state is not known") {
  const TemporaryFolder folder;
  git(folder, "init");
  const auto process_file = folder / "process";
  folder.write("git",
               "#!/bin/sh\ncase $* in *' status '*) ;; *) exit 1;; esac\necho '# branch.oid 0123'\n"
               "echo $$ > " +
                   process_file.string() + "\nexec /bin/sleep 1000\n");
  std::filesystem::permissions(folder / "git", std::filesystem::perms::owner_all);
  pid_t process = 0;
  {
    const OnlyPath path(folder.path());
    GitQuery query(folder / "experiment.yaml");
    while (!(std::ifstream(process_file) >> process)) {
    }
    CHECK(query.result(std::chrono::milliseconds(0)).commit.empty());
  }
  CHECK(kill(process, 0) != 0);
}

// A repository with one commit and the file `tracked`. Its configuration names programs that leave
// a mark when they are started.
class StrangersRepository {
 public:
  StrangersRepository() {
    git(folder_, "init");
    folder_.write("tracked", "one");
    folder_.write(".gitattributes", "tracked filter=odd diff=odd\n");
    git(folder_, "add .");
    git(folder_, "commit -m first");
    const std::string mark = mark_program();
    std::filesystem::create_directory(folder_ / "hooks");
    for (const char* hook : {"post-index-change", "fsmonitor-watchman", "reference-transaction"}) {
      std::filesystem::create_symlink(mark, folder_ / "hooks" / hook);
    }
    for (const std::string key :
         {"core.fsmonitor", "core.pager", "pager.status", "pager.config", "core.sshCommand",
          "core.editor", "core.askPass", "core.alternateRefsCommand", "diff.external",
          "diff.odd.textconv", "diff.odd.command", "filter.odd.process", "filter.odd.clean",
          "filter.odd.smudge", "credential.helper", "gpg.program"}) {
      git(folder_, "config " + key + " " + mark);
    }
    git(folder_, "config filter.odd.required true");
    git(folder_, "config core.hooksPath " + (folder_ / "hooks").string());
  }

  // Gives the file another time than git knows, so git has to compare contents.
  void write_tracked(const std::string& text) const {
    folder_.write("tracked", text);
    std::filesystem::last_write_time(
        folder_ / "tracked", std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  GitState state() const { return GitQuery(folder_ / "tracked").result(kLong); }
  bool has_mark() const { return std::filesystem::exists(mark_.path() / "mark"); }
  const TemporaryFolder& folder() const { return folder_; }
  std::string mark_program() const {
    const auto program = mark_.write(
        "program", "#!/bin/sh\necho \"$0 $*\" >> " + (mark_ / "mark").string() + "\ncat\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return program.string();
  }

  static constexpr std::chrono::minutes kLong{1};

 private:
  TemporaryFolder folder_;
  TemporaryFolder mark_;
};

TEST_CASE("a repository's own configuration starts no program, and its state is still known") {
  const StrangersRepository repository;
  repository.write_tracked("one");
  const GitState clean = repository.state();
  CHECK(clean.commit.size() == 40);
  CHECK(clean.dirty == false);
  repository.write_tracked("two");
  const GitState changed = repository.state();
  CHECK(changed.commit == clean.commit);
  CHECK(changed.dirty == true);
  CHECK_FALSE(repository.has_mark());
}

TEST_CASE("filters of a work tree's and of an included configuration are not started") {
  const StrangersRepository repository;
  git(repository.folder(), "config --remove-section filter.odd");
  const std::string program = repository.mark_program();
  SECTION("work tree") {
    git(repository.folder(), "config extensions.worktreeConfig true");
    git(repository.folder(), "config --worktree filter.odd.clean " + program);
  }
  SECTION("included") {
    repository.folder().write("more", "[filter \"odd\"]\nclean = " + program + "\n");
    git(repository.folder(), "config include.path ../more");
  }
  SECTION("a name that cannot be told to git") {
    repository.folder().write(".gitattributes", "tracked filter=o=d\n");
    git(repository.folder(), "config filter.o=d.clean " + program);
  }
  repository.write_tracked("one");
  repository.state();
  CHECK_FALSE(repository.has_mark());
}

TEST_CASE("what is missing in a partial clone is not fetched") {
  const StrangersRepository repository;
  for (const std::string setting :
       {"core.repositoryFormatVersion 1", "extensions.partialClone origin",
        "remote.origin.promisor true", "remote.origin.url /", "protocol.allow always"}) {
    git(repository.folder(), "config " + setting);
  }
  git(repository.folder(), "config remote.origin.uploadpack " + repository.mark_program());
  const std::string tree = "$(git -C " + repository.folder().path().string() +
                           " rev-parse HEAD^{tree} | sed 's,^..,&/,')";
  const std::string objects = repository.folder().path().string() + "/.git/objects/";
  REQUIRE(std::system(("rm \"" + objects + tree + "\"").c_str()) == 0);
  repository.state();
  CHECK_FALSE(repository.has_mark());
}

TEST_CASE("files of a submodule are not looked at by its own configuration") {
  const StrangersRepository stranger;
  const TemporaryFolder folder;
  git(folder, "init");
  git(folder, "-c core.fsmonitor= -c protocol.file.allow=always submodule add " +
                  stranger.folder().path().string() + " below");
  git(folder, "commit -m first");
  const TemporaryFolder below_folder;
  const std::string module = folder.path().string() + "/below";
  REQUIRE(std::system(
              ("git -C " + module + " config core.fsmonitor " + stranger.mark_program()).c_str()) ==
          0);
  REQUIRE(std::system(("git -C " + module + " config filter.odd.clean " + stranger.mark_program())
                          .c_str()) == 0);
  folder.write("below/tracked", "changed");
  const GitState state = GitQuery(folder / "tracked").result(StrangersRepository::kLong);
  CHECK(state.commit.size() == 40);
  CHECK_FALSE(stranger.has_mark());
}

TEST_CASE("an environment that names another repository is not believed") {
  const TemporaryFolder other;
  git(other, "init");
  const StrangersRepository repository;
  setenv("GIT_DIR", (other / ".git").c_str(), 1);
  const GitState state = repository.state();
  unsetenv("GIT_DIR");
  CHECK(state.commit.size() == 40);
}

}  // namespace
}  // namespace fsdp
