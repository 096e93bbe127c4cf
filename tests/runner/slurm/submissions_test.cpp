#include <catch2/catch.hpp>

#include "tests/runner/slurm/cluster_fixture.h"

// Jobs are submitted, found again, requeued and cancelled, or Slurm's programs refuse.
namespace fsdp {
namespace {

TEST_CASE_METHOD(ClusterTest, "A submission's answer is the job's id") {
  const auto script = fake.folder().write("script.sh", "#!/bin/bash\n");
  fake.let("sbatch", "echo 'sbatch: a word of the site' >&2; echo 12");
  CHECK(cluster.submit(script) == "12");
  CHECK(fake.arguments("sbatch") == Strings{"--parsable", script.string()});
  fake.let("sbatch", "echo '13;north'");
  CHECK(cluster.submit(script) == "13");
  CHECK(fake.calls("sbatch").size() == 2);
  CHECK(fake.programs_called() == Strings{"sbatch"});
}

TEST_CASE_METHOD(ClusterTest, "A refused submission has sbatch's words and a remedy") {
  // An answer that is no id may be that of an accepted job.
  CHECK(cluster.submission(fake, "echo 'Welcome to the cluster'") ==
        "unavailable: sbatch answers what is not its format: 'Welcome to the cluster'");
  const std::string failed = "sbatch: error: Batch job submission failed: ";
  const std::string refused = "refused: sbatch refuses the job: ";
  CHECK(cluster.submission(fake, failing("sbatch: error: invalid partition specified: gpus\n" +
                                         failed + "Invalid partition name specified")) ==
        refused +
            "invalid partition specified: gpus; Invalid partition name specified; set "
            "slurm.partition to one that `sinfo -s` lists");
  CHECK(
      cluster.submission(fake, failing(failed + "Requested node configuration is not available")) ==
      refused +
          "Requested node configuration is not available; no node has all of "
          "slurm.gpus_per_node, cpus_per_task, mem and constraint: see `sinfo -o '%P %D %c "
          "%m %G %f'`");
  CHECK(cluster.submission(fake, failing("sbatch: error: the site wants a ticket")) ==
        refused + "the site wants a ticket");
}

TEST_CASE_METHOD(ClusterTest, "A limit on submitted jobs is for later, other limits are not") {
  const std::string policy =
      "\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job "
      "submit "
      "limit, user's size and/or time limits)";
  for (const std::string limit :
       {"AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", "AssocGrpSubmitJobsLimit"}) {
    CHECK(cluster.submission(fake, failing("sbatch: error: " + limit + policy))
              .starts_with("later: sbatch: " + limit + "; Job violates"));
  }
  for (const std::string limit : {"QOSMaxWallDurationPerJobLimit", "AssocMaxNodePerJobLimit"}) {
    const auto answer = cluster.submission(fake, failing("sbatch: error: " + limit + policy));
    CHECK(answer.starts_with("refused: sbatch refuses the job: " + limit + "; Job violates"));
    CHECK(
        answer.ends_with("; stay within your site's limits: lower slurm.time, slurm.nodes, "
                         "slurm.gpus_per_node or slurm.mem, or choose another slurm.qos"));
  }
}

TEST_CASE_METHOD(ClusterTest, "What sbatch itself refuses is refused, and not asked again") {
  for (const std::string words :
       {"sbatch: error: Invalid --mail-type specification", "sbatch: unrecognized option '--oops'",
        "sbatch: error: Invalid --begin specification"}) {
    CHECK(cluster.submission(fake, "echo \"" + words + "\" >&2; exit 255")
              .starts_with("refused: sbatch refuses the job: "));
  }
}

TEST_CASE_METHOD(ClusterTest, "A controller with too many jobs takes fewer, or the same later") {
  const std::string says =
      "echo 'sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying' >&2\n";
  const std::string later = "later: sbatch: Slurm temporarily unable";
  CHECK(cluster.submission(fake, says + "exit 1").starts_with(later));
  // sbatch has this long to say why it waits.
  Cluster impatient{std::chrono::seconds(3)};
  CHECK(impatient.submission(fake, says + "sleep 1000").starts_with(later));
}

TEST_CASE_METHOD(ClusterTest,
                 "A submission is found again by its script, however its path is written") {
  fake.let("squeue",
           "printf '12|/r/slurm/lab-5f0c/script.sh\\n12|/r/slurm/lab-5f0c/script.sh\\n13|(null)\\n"
           "14|/home/./a|b/slurm/lab-77/script.sh\\n'");
  CHECK(cluster.find_submission("/r/slurm/lab-5f0c/script.sh", 1000) == "12");
  CHECK(cluster.find_submission("/home/a|b/slurm/lab-77/script.sh", 1000) == "14");
  CHECK(cluster.find_submission("/r/slurm/lab-5f/script.sh", 1000) == std::nullopt);
  CHECK(cluster.find_submission("/r/slurm/b-5f0c/script.sh", 1000) == std::nullopt);
  CHECK(fake.arguments("squeue")[2] == "--user=1000");
}

TEST_CASE_METHOD(ClusterTest, "A job is requeued, or Slurm's words say why not") {
  cluster.requeue("12");
  CHECK(fake.arguments("scontrol") == Strings{"requeue", "12"});
  fake.let("scontrol", failing("Requested operation is presently disabled for job 12"));
  CHECK(said_by([&] { cluster.requeue("12"); }) ==
        "error: scontrol: Requested operation is presently disabled for job 12");
  fake.let("scontrol", failing("Unable to contact slurm controller (connect failure)"));
  CHECK_THROWS_AS(cluster.requeue("12"), QueueUnavailable);
}

TEST_CASE_METHOD(ClusterTest,
                 "Jobs and tasks are cancelled; one that is over already is no error") {
  std::map<std::string, std::string> refused;
  const auto cancel = [&](const Strings& jobs) {
    return said_by([&] { refused = cluster.cancel(jobs); });
  };
  fake.let("scancel",
           failing("scancel: error: Kill job error on job id 12: Invalid job id specified"));
  CHECK(cancel({"12", "13_4"}) == "done");
  CHECK(refused.empty());
  CHECK(fake.calls("scancel") == Strings{"12 13_4 "});
  fake.let("scancel", failing("scancel: error: Unable to contact slurm controller"));
  CHECK(cancel({"12"}).starts_with("unavailable: "));
  fake.let("scancel",
           failing("scancel: error: Kill job error on job id 12: Access/permission denied"));
  CHECK(cancel({"11"}) == "error: scancel: Kill job error on job id 12: Access/permission denied");
  CHECK(cancel({}) == "done");
  fake.let("scancel",
           failing("scancel: error: Kill job error on job id 14: Invalid job id specified\n"
                   "scancel: error: Kill job error on job id 13_4: Access/permission denied"));
  CHECK(cancel({"12", "13_4", "14"}) == "done");
  CHECK(refused == std::map<std::string, std::string>{
                       {"13_4", "Kill job error on job id 13_4: Access/permission denied"}});
}

}  // namespace
}  // namespace fsdp
