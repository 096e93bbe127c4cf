#include "runner/host/quota.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

// Replaces all programs on PATH during its lifetime.
class Programs {
 public:
  Programs() : path_before_(getenv("PATH")) { setenv("PATH", folder_.path().c_str(), 1); }
  ~Programs() { setenv("PATH", path_before_.c_str(), 1); }

  void let(const std::string& name, const std::string& lines) const {
    const auto file = folder_.write(name, "#!/bin/sh\necho \"$@\" >>\"$0.calls\"\n" + lines);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  std::string calls(const std::string& name) const {
    std::ifstream stream(folder_ / (name + ".calls"));
    return {std::istreambuf_iterator<char>(stream), {}};
  }

 private:
  TemporaryFolder folder_;
  std::string path_before_;
};

std::string text_of(const QuotaUse& use) {
  return fmt::format("{}/{}/{} {}", use.used, use.soft, use.hard, use.grace);
}
std::string text_of(const std::optional<Quota>& quota) {
  return quota ? text_of(quota->bytes) + ", " + text_of(quota->files) : "none";
}

// Returns shell commands that print the row as `quota -u -w -p` does.
std::string quota_lines(const std::string& row) {
  return "echo 'Disk quotas for user ann (uid 1000): '\n"
         "echo '     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace'\n"
         "echo '" +
         row + "'\n";
}

TEST_CASE("a quota is what the program quota tells of the file system") {
  const Programs programs;
  programs.let(
      "quota",
      quota_lines("nas:/home  2048       0   4096       0      12       0       0       0"));
  CHECK(text_of(quota_of("/proc/self")) == "2097152/0/4194304 0, 12/0/0 0");
  CHECK(programs.calls("quota") == "-u -w -p --filesystem=/proc\n");
  programs.let("quota",
               quota_lines("/dev/sda1  2048*   1024   4096  1700000000  12*  10  20  1700000001") +
                   "exit 1\n");
  CHECK(text_of(quota_of("/proc/no/such/folder")) ==
        "2097152/1048576/4194304 1700000000, 12/10/20 1700000001");
}

TEST_CASE("a quota on Lustre is what lfs tells, with a long name or a server that is down") {
  const Programs programs;
  programs.let("quota", quota_lines("/dev/sda1 1 2 3 0 4 5 6 0"));
  programs.let("lfs",
               "echo '/lustre/scratch\n'\n"
               "echo '            [2048]*   1024   4096  6d23h59m40s   12   0   0   -'\n"
               "echo 'uid 1000 is using default file quota setting'\n");
  CHECK(text_of(quota_of("/proc")) == "2097152/1048576/4194304 6d23h59m40s, 12/0/0 -");
  CHECK(programs.calls("lfs") == fmt::format("quota -q -u {} /proc\n", geteuid()));
  CHECK(programs.calls("quota").empty());
  programs.let("lfs", "echo 'lfs quota: /proc not on a mounted Lustre filesystem' >&2; exit 22\n");
  CHECK(text_of(quota_of("/proc")) == "1024/2048/3072 0, 4/5/6 0");
}

TEST_CASE("there is no quota if no program tells of one") {
  const Programs programs;
  CHECK(text_of(quota_of("/proc")) == "none");
  programs.let("quota", "echo 'Disk quotas for user root (uid 0): none'\n");
  programs.let("lfs", GENERATE("kill -9 $$\n", "echo 1 2 3 - 5 6\n", "echo / a b c d e f g h i\n",
                               "echo '/ 1 2 3 - -'; echo '4 5 6 -'\n"));
  CHECK(text_of(quota_of("/proc")) == "none");
}

TEST_CASE("a program that does not answer is not waited for") {
  const Programs programs;
  programs.let("lfs", "echo '/lustre 1 2 3 - 4 5 6 -'; /bin/sleep 1000\n");
  CHECK(text_of(quota_of("/proc", std::chrono::milliseconds(100))) == "none");
}

}  // namespace
}  // namespace fsdp
