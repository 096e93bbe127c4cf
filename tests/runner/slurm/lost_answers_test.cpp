#include <catch2/catch.hpp>
#include <string>

#include "tests/runner/slurm/cluster_fixture.h"

// Programs that die, or that lose the controller's answer.
namespace fsdp {
namespace {

TEST_CASE_METHOD(ClusterTest,
                 "A submission whose answer was lost is no refusal, unless sbatch said so before") {
  const std::string failed = "sbatch: error: Batch job submission failed: ";
  for (const std::string& words :
       {std::string("kill -KILL $$"), std::string("echo 'sbatch: a word' >&2; kill -KILL $$"),
        std::string("exit 1"), failing(failed + "Message receive failure"),
        failing(failed + "Unexpected message received"),
        failing(failed + "Unable to contact slurm controller (connect failure)"),
        failing(failed + "Socket timed out on send/recv operation"),
        failing(failed + "Zero Bytes were transmitted or received")}) {
    CHECK_THAT(cluster.submission(fake, words), Catch::StartsWith("unavailable: sbatch"));
  }
  CHECK_THAT(cluster.submission(
                 fake, "echo '" + failed + "Invalid partition name specified' >&2; kill -KILL $$"),
             Catch::StartsWith("refused: "));
}

TEST_CASE_METHOD(ClusterTest,
                 "A question that is not answered can be asked again, whatever the words are") {
  const std::string fails = GENERATE(as<std::string>(), "kill -KILL $$", "exit 3",
                                     failing("slurm_load_jobs error: Unexpected message received"),
                                     failing("slurm_load_jobs error: Unheard of"));
  fake.let("squeue", fails);
  CHECK_THROWS_AS(cluster.ask({"12"}), QueueUnavailable);
  CHECK_THROWS_AS(cluster.find_submission("1", geteuid()), QueueUnavailable);
  fake.let("squeue", "");
  fake.let("scontrol", fails);
  CHECK_THROWS_AS(cluster.ask({"12"}), QueueUnavailable);
  fake.let("scontrol", "if [[ $* != *config* ]]; then\n" + fails + "\nfi\n" + kNoAccounting);
  CHECK_THROWS_AS(cluster.ask({"12"}), QueueUnavailable);
}

TEST_CASE_METHOD(ClusterTest,
                 "A job in a state that we do not know lives, and nothing else is known of it") {
  fake.let("scontrol", kNoAccounting);
  fake.let("squeue", "echo '12_0|HAUNTED|4:00:00|n1|None'");
  CHECK(told(cluster.ask({"12"})) == Strings{"12_0 ending: HAUNTED on n1 ()"});
  fake.let("squeue", "");
  fake.let("scontrol",
           "if [[ $* == *config* ]]; then\n" + std::string(kNoAccounting) +
               "exit\nfi\n"
               "echo 'JobId=12 ArrayJobId=12 ArrayTaskId=0 JobState=HAUNTED Reason=None "
               "NodeList=n1'");
  CHECK(told(cluster.ask({"12"})) == Strings{"12_0 ending: HAUNTED on n1 ()"});
}

}  // namespace
}  // namespace fsdp
