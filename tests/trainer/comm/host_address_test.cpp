#include "trainer/comm/host_address.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "tests/temporary_folder.h"

namespace fsdp::host_address_test {

// A name that no resolver knows (RFC 2606).
constexpr const char* kUnknownName = "n1.invalid";

// A folder with a program scontrol that runs these lines of sh.
class FakeSlurm : public TemporaryFolder {
 public:
  explicit FakeSlurm(const std::string& lines) : path_(std::getenv("PATH")) {
    std::ofstream(*this / "scontrol") << "#!/bin/sh\n" << lines << '\n';
    std::filesystem::permissions(*this / "scontrol", std::filesystem::perms::owner_all);
    setenv("PATH", ((*this / ".").string() + ":" + path_).c_str(), 1);
    setenv("SLURM_LAUNCH_NODE_IPADDR", "10.1.1.1", 1);
  }
  ~FakeSlurm() {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("SLURM_LAUNCH_NODE_IPADDR");
  }

 private:
  std::string path_;
};

TEST_CASE("a node is reached by its name where that resolves to an address that others have") {
  const FakeSlurm slurm("echo NodeName=$4 NodeAddr=10.2.2.2");
  CHECK(address_of_slurm_node("10.3.3.3") == "10.3.3.3");
  CHECK(address_of_slurm_node("localhost") == "10.2.2.2");
}

TEST_CASE("a node whose name does not resolve is reached where Slurm reaches it") {
  const FakeSlurm slurm(R"([ "$*" = "--oneliner show node n1.invalid" ] || exit 1
echo "NodeName=$4 Arch=x86_64 NodeAddr=10.2.2.2 NodeHostName=vm Port=31016")");
  CHECK(address_of_slurm_node(kUnknownName) == "10.2.2.2");
  CHECK(address_of_slurm_node("n1.invalid; echo NodeAddr=10.4.4.4") == "10.1.1.1");
}

TEST_CASE("where Slurm cannot be asked, ranks meet where srun was started") {
  const FakeSlurm slurm("echo error >&2; exit 1");
  CHECK(address_of_slurm_node(kUnknownName) == "10.1.1.1");
  unsetenv("SLURM_LAUNCH_NODE_IPADDR");
  CHECK(address_of_slurm_node(kUnknownName) == kUnknownName);
}

TEST_CASE("the address on the way to another host") {
  CHECK(local_address_towards("127.0.0.1") == "127.0.0.1");
  CHECK_THROWS_WITH(local_address_towards(kUnknownName), Catch::Contains(kUnknownName));
}

}  // namespace fsdp::host_address_test
