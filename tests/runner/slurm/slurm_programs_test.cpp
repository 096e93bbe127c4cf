#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "runner/cluster/slurm.h"
#include "tests/runner/slurm/cluster_fixture.h"

// Slurm's programs hang, are missing or get settings from the environment.
namespace fsdp {
namespace {

TEST_CASE("A program that hangs is given up") {
  const FakeSlurm fake;
  Cluster cluster{std::chrono::milliseconds(300)};
  CHECK(cluster.submission(fake, "echo 'sbatch: error: Something of the site' >&2; sleep 1000") ==
        "unavailable: sbatch had no answer within 0 s: Something of the site");
  // Programs are given up, too, that closed their output or whose child holds it open.
  fake.let("squeue", "exec >&- 2>&-; sleep 1000");
  CHECK(said_by([&] { cluster.ask({"12"}); }) == "unavailable: squeue had no answer within 0 s");
  fake.let("squeue", "sleep 1000 & echo $! >\"$FAKE_SLURM/child\"; exit 0");
  CHECK(said_by([&] { cluster.ask({"12"}); }) == "unavailable: squeue had no answer within 0 s");
  // No process is left.
  const std::string child = lines_of(text_of(fake.folder() / "child")).at(0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!text_of("/proc/" + child + "/cmdline").empty()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST_CASE_METHOD(ClusterTest, "Without Slurm's programs the user is asked where this is") {
  const std::string path = getenv("PATH");
  setenv("PATH", "/no/such/folder", 1);
  const std::string said = said_by([&] { cluster.ask({"12"}); });
  setenv("PATH", path.c_str(), 1);
  CHECK(said == "error: squeue is not here: is this a login node of a Slurm cluster?");
}

TEST_CASE_METHOD(ClusterTest, "Limits are read once") {
  fake.let("scontrol", kAccounting);
  CHECK(cluster.limits().max_array_size == 30);
  CHECK(cluster.config().has_accounting);
  CHECK(fake.calls("scontrol").size() == 1);

  Cluster other;
  fake.let("scontrol", kNoAccounting);
  CHECK(other.limits().max_array_size == 1001);
  CHECK_FALSE(other.config().has_accounting);

  Cluster broken;
  fake.let("scontrol", "echo hello");
  CHECK(said_by([&] { broken.config(); }) ==
        "unavailable: scontrol show config answers what is not its format: 'hello'");
}

TEST_CASE_METHOD(ClusterTest, "Only what the cluster itself knows of ended jobs is asked for") {
  fake.let("scontrol", std::string("echo 'ClusterName             = dawn'\n") + kAccounting);
  CHECK(cluster.limits().cluster == "dawn");
  fake.let("sacct", "echo '12|COMPLETED|n1'");
  CHECK(cluster.ask({"12"}).at(0).state == "COMPLETED");
  CHECK(fake.arguments("sacct").back() == "--clusters=dawn");
}

TEST_CASE("What the user's environment tells Slurm's programs does not change their answers") {
  const FakeSlurm fake;
  const Strings names = {"SQUEUE_PARTITION", "SACCT_FORMAT",   "SLURM_JOB_ID",
                         "SBATCH_ACCOUNT",   "SBATCH_WAIT",    "SBATCH_QOS",
                         "SLURM_CONF",       "SLURM_CLUSTERS", "SBATCH_CLUSTERS"};
  for (const std::string& name : names) setenv(name.c_str(), "x", 1);
  const auto seen_in = [&](const Strings& environment) {
    Strings seen;
    for (const std::string& name : names) {
      if (std::find(environment.begin(), environment.end(), name + "=x") != environment.end()) {
        seen.push_back(name);
      }
    }
    return seen;
  };
  CHECK(seen_in(program_environment()) == Strings{"SBATCH_ACCOUNT", "SBATCH_WAIT", "SBATCH_QOS",
                                                  "SLURM_CONF", "SLURM_CLUSTERS",
                                                  "SBATCH_CLUSTERS"});
  CHECK(seen_in(submission_environment("#!/bin/bash\n#SBATCH --account=mine\n")) ==
        Strings{"SBATCH_QOS", "SLURM_CONF", "SLURM_CLUSTERS"});
  CHECK(seen_in(submission_environment("#!/bin/bash\n#SBATCH \"--account=my own\"\n")) ==
        Strings{"SBATCH_QOS", "SLURM_CONF", "SLURM_CLUSTERS"});
  for (const std::string& name : names) unsetenv(name.c_str());
}

}  // namespace
}  // namespace fsdp
