#include <catch2/catch.hpp>
#include <string>

#include "tests/runner/slurm/cluster_fixture.h"

// Programs that die, or that lose the controller's answer.
namespace fsdp {
namespace {

TEST_CASE("A submission whose answer was lost is no refusal") {
  const FakeSlurm fake;
  SlurmQueue cluster;
  fake.let("sbatch",
           GENERATE(as<std::string>(), "kill -KILL $$", "echo 'sbatch: a word' >&2; kill -KILL $$",
                    "exit 1",
                    failing("sbatch: error: Batch job submission failed: Message receive failure"),
                    failing("sbatch: error: Batch job submission failed: Unexpected message "
                            "received")));
  const auto script = fake.folder().write("script.sh", "#!/bin/bash\n");
  CHECK_THROWS_AS(cluster.submit(script), QueueUnavailable);
}

TEST_CASE("What sbatch said before it died is still a refusal") {
  const FakeSlurm fake;
  SlurmQueue cluster;
  fake.let("sbatch",
           "echo 'sbatch: error: Batch job submission failed: Invalid partition name specified' "
           ">&2; kill -KILL $$");
  const auto script = fake.folder().write("script.sh", "#!/bin/bash\n");
  CHECK_THROWS_AS(cluster.submit(script), QueueRefused);
}

TEST_CASE("A question that is not answered can be asked again, whatever the words are") {
  const FakeSlurm fake;
  SlurmQueue cluster;
  const std::string fails = GENERATE(as<std::string>(), "kill -KILL $$", "exit 3",
                                     failing("slurm_load_jobs error: Unexpected message received"),
                                     failing("slurm_load_jobs error: Unheard of"));
  const Strings jobs = {"12"};
  fake.let("squeue", fails);
  CHECK_THROWS_AS(cluster.query(jobs, geteuid()), QueueUnavailable);
  CHECK_THROWS_AS(cluster.find_submission("1", geteuid()), QueueUnavailable);
  fake.let("squeue", "");
  fake.let("scontrol", fails);
  CHECK_THROWS_AS(cluster.query(jobs, geteuid()), QueueUnavailable);
  fake.let("scontrol", "if [[ $* != *config* ]]; then\n" + fails + "\nfi\n" + kNoAccounting);
  CHECK_THROWS_AS(cluster.query(jobs, geteuid()), QueueUnavailable);
}

TEST_CASE("A job in a state that we do not know lives, and nothing else is known of it") {
  const FakeSlurm fake;
  SlurmQueue cluster;
  fake.let("scontrol", kNoAccounting);
  const Strings jobs = {"12"};
  const TaskState haunted{.job = "12_0",
                          .phase = TaskPhase::kEnding,
                          .state = "HAUNTED",
                          .reason = "",
                          .node_list = "n1"};
  fake.let("squeue", "echo '12_0|HAUNTED|4:00:00|n1|None'");
  CHECK(cluster.query(jobs, geteuid()) == std::vector{haunted});
  fake.let("squeue", "");
  fake.let("scontrol",
           "if [[ $* == *config* ]]; then\n" + std::string(kNoAccounting) +
               "exit\nfi\n"
               "echo 'JobId=12 ArrayJobId=12 ArrayTaskId=0 JobState=HAUNTED Reason=None "
               "NodeList=n1'");
  CHECK(cluster.query(jobs, geteuid()) == std::vector{haunted});
}

}  // namespace
}  // namespace fsdp
