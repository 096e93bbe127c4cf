#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "runner/slurm/program_environment.h"
#include "runner/slurm/slurm.h"
#include "tests/runner/slurm/fake_slurm.h"
#include "trainer/contract/config_error.h"

// sbatch, squeue, sacct, scontrol and scancel as they answer, fail, hang and babble.
namespace fsdp {
namespace {

using Strings = std::vector<std::string>;
using Tasks = std::vector<TaskState>;

constexpr const char* kNoAccounting =
    "echo 'Configuration data as of 2024-05-01T10:00:00'\n"
    "echo 'AccountingStorageType   = accounting_storage/none'\n"
    "echo 'MaxArraySize            = 1001'\n";
constexpr const char* kAccounting =
    "echo 'AccountingStorageType   = accounting_storage/slurmdbd'\n"
    "echo 'MaxArraySize            = 30'\n";

// A program that fails as Slurm's do.
std::string failing(const std::string& words) { return "echo \"" + words + "\" >&2; exit 1\n"; }

std::string said_by(const std::function<void()>& action) {
  try {
    action();
  } catch (const SlurmRefused& refused) {
    return std::string(refused.later() ? "later: " : "refused: ") + refused.what();
  } catch (const SlurmUnavailable& unavailable) {
    return std::string("unavailable: ") + unavailable.what();
  } catch (const std::exception& error) {
    return std::string("error: ") + error.what();
  }
  return "done";
}

class Cluster : public SlurmPrograms {
 public:
  using SlurmPrograms::SlurmPrograms;
  Tasks ask(const Strings& jobs) { return query(jobs); }
  std::string submission(const FakeSlurm& fake) {
    return said_by([&] { submit(fake.folder().write("script.sh", "#!/bin/bash\n")); });
  }
};

TEST_CASE("A job is requeued, or Slurm's words say why not") {
  const FakeSlurm fake;
  Cluster cluster;
  cluster.requeue("12");
  CHECK(fake.arguments("scontrol") == Strings{"requeue", "12"});
  fake.let("scontrol", failing("Requested operation is presently disabled for job 12"));
  CHECK(said_by([&] { cluster.requeue("12"); }) ==
        "error: scontrol: Requested operation is presently disabled for job 12");
  fake.let("scontrol", failing("Unable to contact slurm controller (connect failure)"));
  CHECK_THROWS_AS(cluster.requeue("12"), SlurmUnavailable);
}

TEST_CASE("A submission's answer is the job's id") {
  const FakeSlurm fake;
  Cluster cluster;
  const auto script = fake.folder().write("script.sh", "#!/bin/bash\n");
  fake.let("sbatch", "echo 'sbatch: a word of the site' >&2; echo 12");
  CHECK(cluster.submit(script) == "12");
  CHECK(fake.arguments("sbatch") == Strings{"--parsable", script.string()});
  fake.let("sbatch", "echo '13;north'");
  CHECK(cluster.submit(script) == "13");
  CHECK(fake.calls("sbatch").size() == 2);
  CHECK(fake.programs_called() == Strings{"sbatch"});
}

TEST_CASE("An answer that is no id may be that of an accepted job") {
  const FakeSlurm fake;
  Cluster cluster;
  fake.let("sbatch", "echo 'Welcome to the cluster'");
  CHECK(cluster.submission(fake) ==
        "unavailable: sbatch answers what is not its format: 'Welcome to the cluster'");
}

TEST_CASE("A refused submission has sbatch's words and a remedy") {
  const FakeSlurm fake;
  Cluster cluster;
  fake.let("sbatch", failing("sbatch: error: invalid partition specified: gpus\n"
                             "sbatch: error: Batch job submission failed: Invalid partition name "
                             "specified"));
  CHECK(cluster.submission(fake) ==
        "refused: sbatch refuses the job: invalid partition specified: gpus; Invalid partition "
        "name specified; set slurm.partition to one that `sinfo -s` lists");
  fake.let("sbatch", failing("sbatch: error: Batch job submission failed: Requested node "
                             "configuration is not available"));
  CHECK(cluster.submission(fake) ==
        "refused: sbatch refuses the job: Requested node configuration is not available; no node "
        "has all of slurm.gpus_per_node, cpus_per_task, mem and constraint: see `sinfo -o '%P %D "
        "%c %m %G %f'`");
  fake.let("sbatch", failing("sbatch: error: the site wants a ticket"));
  CHECK(cluster.submission(fake) == "refused: sbatch refuses the job: the site wants a ticket");
}

TEST_CASE("A limit on submitted jobs is for later, other limits are not") {
  const FakeSlurm fake;
  Cluster cluster;
  const std::string policy =
      "\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job "
      "submit "
      "limit, user's size and/or time limits)";
  for (const std::string limit :
       {"AssocMaxSubmitJobLimit", "QOSMaxSubmitJobPerUserLimit", "AssocGrpSubmitJobsLimit"}) {
    fake.let("sbatch", failing("sbatch: error: " + limit + policy));
    CHECK(cluster.submission(fake).starts_with("later: sbatch: " + limit + "; Job violates"));
  }
  fake.let("sbatch", failing("sbatch: error: QOSMaxWallDurationPerJobLimit" + policy));
  CHECK(cluster.submission(fake).starts_with("refused: "));
}

TEST_CASE("A controller that does not answer is no refusal") {
  const FakeSlurm fake;
  Cluster cluster;
  for (const std::string words :
       {"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
        "failure)",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received"}) {
    fake.let("sbatch", failing(words));
    CHECK(cluster.submission(fake).starts_with("unavailable: sbatch: "));
  }
}

TEST_CASE("A program that hangs is given up") {
  const FakeSlurm fake;
  Cluster cluster{std::chrono::milliseconds(300)};
  fake.let("sbatch",
           "echo 'sbatch: error: Slurm temporarily unable to accept job, sleeping and "
           "retrying' >&2; sleep 1000");
  CHECK(cluster.submission(fake) ==
        "unavailable: sbatch had no answer within 0 s: Slurm temporarily unable to accept job, "
        "sleeping and retrying");
  // Also one that closed its output, and one whose children hold it.
  fake.let("squeue", "exec >&- 2>&-; sleep 1000");
  CHECK(said_by([&] { cluster.ask({"12"}); }) == "unavailable: squeue had no answer within 0 s");
  fake.let("squeue", "sleep 1000 & echo $! >\"$FAKE_SLURM/child\"; exit 0");
  CHECK(said_by([&] { cluster.ask({"12"}); }) == "unavailable: squeue had no answer within 0 s");
  // Nothing of it is left.
  const std::string child = lines_of(text_of(fake.folder() / "child")).at(0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!text_of("/proc/" + child + "/cmdline").empty()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST_CASE("Without Slurm's programs the user is asked where this is") {
  const FakeSlurm fake;
  Cluster cluster;
  const std::string path = getenv("PATH");
  setenv("PATH", "/no/such/folder", 1);
  const std::string said = said_by([&] { cluster.ask({"12"}); });
  setenv("PATH", path.c_str(), 1);
  CHECK(said == "error: squeue is not here: is this a login node of a Slurm cluster?");
}

TEST_CASE("One squeue tells all tasks of all jobs") {
  const FakeSlurm fake;
  Cluster cluster;
  fake.let("scontrol", kNoAccounting);
  fake.let("squeue",
           "cat <<'END'\n"
           "12_0|RUNNING|1-02:03:04|n[1-2]|None\n"
           "12_1|RUNNING|UNLIMITED|n3|None\n"
           "12_2|COMPLETING|0:00|n3|None\n"
           "12_3|OUT_OF_MEMORY|0:00|n3|OutOfMemory\n"
           "12_[4-5,7%2]|PENDING|4:00:00||JobArrayTaskLimit\n"
           "15|PENDING|4:00:00||Nodes required for job are DOWN, DRAINED or reserved for jobs in "
           "higher priority partitions\n"
           "END\n");
  const Tasks tasks = cluster.ask({"12", "15"});
  REQUIRE(tasks.size() == 8);
  CHECK(tasks[0] == TaskState{.job = "12_0",
                              .phase = TaskPhase::kRunning,
                              .state = "RUNNING",
                              .reason = "",
                              .node_list = "n[1-2]",
                              .seconds_left = 93784});
  CHECK(tasks[1].seconds_left == std::nullopt);
  CHECK(tasks[2].phase == TaskPhase::kEnding);
  CHECK(tasks[3] == TaskState{.job = "12_3",
                              .phase = TaskPhase::kEnded,
                              .state = "OUT_OF_MEMORY",
                              .reason = "OutOfMemory",
                              .node_list = "n3"});
  CHECK(tasks[4] == TaskState{.job = "12_4",
                              .phase = TaskPhase::kQueued,
                              .state = "PENDING",
                              .reason = "JobArrayTaskLimit",
                              .node_list = ""});
  CHECK(tasks[5].job == "12_5");
  CHECK(tasks[6].job == "12_7");
  CHECK(tasks[7].job == "15");
  CHECK(tasks[7].reason.starts_with("Nodes required for job are DOWN, DRAINED"));
  CHECK(fake.arguments("squeue") == Strings{"--noheader", "--all", "--array", "--states=all",
                                            "--jobs=12,15", "--format=%i|%T|%L|%N|%r"});
  CHECK(fake.calls("squeue").size() == 1);
  CHECK(fake.programs_called() == Strings{"squeue"});
}

TEST_CASE("A job that squeue has forgotten is told by sacct where there is one") {
  const FakeSlurm fake;
  Cluster cluster;
  fake.let("scontrol", kAccounting);
  fake.let("squeue", failing("slurm_load_jobs error: Invalid job id specified"));
  fake.let("sacct", "echo '12_0|COMPLETED|n1'; echo '12_1|CANCELLED by 1000|None assigned'");
  CHECK(cluster.ask({"12"}) == Tasks{{.job = "12_0",
                                      .phase = TaskPhase::kEnded,
                                      .state = "COMPLETED",
                                      .reason = "",
                                      .node_list = "n1"},
                                     {.job = "12_1",
                                      .phase = TaskPhase::kEnded,
                                      .state = "CANCELLED",
                                      .reason = "",
                                      .node_list = ""}});
  CHECK(fake.arguments("sacct") == Strings{"--allocations", "--noheader", "--parsable2",
                                           "--jobs=12", "--format=JobID,State,NodeList"});
}

TEST_CASE("A job that nobody knows any more is absent, and asked for once only by scontrol") {
  const FakeSlurm fake;
  Cluster cluster;
  fake.let("scontrol", std::string("case $* in 'show config')\n") + kAccounting + ";; *) " +
                           failing("slurm_load_jobs error: Invalid job id specified") + ";; esac");
  fake.let("squeue", "echo '14_0|RUNNING|1:00|n1|None'");
  fake.let("sacct", "");
  CHECK(cluster.ask({"12", "14"}).size() == 1);
  CHECK(cluster.ask({"12", "14"}).size() == 1);
  CHECK(fake.calls("scontrol") == Strings{"show config ", "--all --oneliner show job 12 "});
  CHECK(fake.calls("sacct").size() == 2);
}

TEST_CASE("Without accounting, or while its database is down, scontrol is asked") {
  const FakeSlurm fake;
  Cluster cluster;
  const std::string jobs =
      ";; *) echo 'JobId=30 ArrayJobId=12 ArrayTaskId=3 JobName=a b=c JobState=TIMEOUT "
      "Reason=TimeLimit Dependency=(null) NodeList=n1 BatchHost=n1'\n"
      "echo 'JobId=12 ArrayJobId=12 ArrayTaskId=5-6%2 JobName=a JobState=PENDING "
      "Reason=Resources NodeList=(null)'\n;; esac";
  fake.let("squeue", "");
  fake.let("scontrol", std::string("case $* in 'show config')\n") + kNoAccounting + jobs);
  const Tasks expected = {{.job = "12_3",
                           .phase = TaskPhase::kEnded,
                           .state = "TIMEOUT",
                           .reason = "TimeLimit",
                           .node_list = "n1"},
                          {.job = "12_5",
                           .phase = TaskPhase::kQueued,
                           .state = "PENDING",
                           .reason = "Resources",
                           .node_list = ""},
                          {.job = "12_6",
                           .phase = TaskPhase::kQueued,
                           .state = "PENDING",
                           .reason = "Resources",
                           .node_list = ""}};
  CHECK(cluster.ask({"12"}) == expected);
  CHECK(fake.calls("sacct").empty());

  Cluster with_accounting;
  fake.let("scontrol", std::string("case $* in 'show config')\n") + kAccounting + jobs);
  fake.let("sacct", failing("sacct: error: slurm_persist_conn_open: Connection refused"));
  CHECK(with_accounting.ask({"12"}) == expected);
}

TEST_CASE(
    "Tasks that squeue has forgotten while others of their array go on are asked for by name") {
  const FakeSlurm fake;
  Cluster cluster;
  fake.let("scontrol", std::string("case $* in 'show config')\n") + kAccounting + ";; *) " +
                           failing("slurm_load_jobs error: Invalid job id specified") + ";; esac");
  fake.let("squeue", "echo '12_0|RUNNING|1:00|n1|None'; echo '12_3|RUNNING|1:00|n2|None'");
  fake.let("sacct", "echo '12_1|OUT_OF_MEMORY|n1'; echo '12_2|RUNNING|n2'");
  const Tasks tasks = cluster.ask({"12_0", "12_1", "12_2"});
  REQUIRE(tasks.size() == 2);
  CHECK(tasks[0].job == "12_0");
  CHECK(tasks[1].job == "12_1");
  CHECK(tasks[1].state == "OUT_OF_MEMORY");
  CHECK(fake.arguments("squeue")[4] == "--jobs=12");
  CHECK(fake.arguments("sacct")[3] == "--jobs=12_1,12_2");
}

TEST_CASE("A controller that is down or babbles is not taken for jobs that are gone") {
  const FakeSlurm fake;
  Cluster cluster;
  const auto said = [&] { return said_by([&] { cluster.ask({"12"}); }); };
  fake.let("squeue", failing("slurm_load_jobs error: Unable to contact slurm controller (connect "
                             "failure)"));
  CHECK(said() ==
        "unavailable: squeue: slurm_load_jobs error: Unable to contact slurm controller (connect "
        "failure)");
  fake.let("squeue", "echo 'The cluster is closed on Friday'");
  CHECK(said() ==
        "unavailable: squeue answers what is not its format: 'The cluster is closed on Friday'");
  fake.let("squeue", "echo 'twelve|RUNNING|1:00|n1|None'");
  CHECK(said() == "unavailable: squeue answers what is not its format: 'twelve'");
  fake.let("squeue", "echo '12_[0-99999999999]|PENDING|1:00||None'");
  CHECK(said().starts_with("unavailable: "));
  fake.let("squeue", "exit 3");
  CHECK(said() == "unavailable: squeue: exited with status 3");
}

TEST_CASE("So many jobs that no argument could hold their ids are still one squeue") {
  const FakeSlurm fake;
  Cluster cluster;
  Strings jobs;
  for (int job = 1'000'000; job < 1'020'000; ++job) jobs.push_back(std::to_string(job));
  fake.let("squeue",
           "for ((job = 999990; job < 1020000; ++job)); do echo "
           "\"$job|RUNNING|1:00|n1|None\"; done");
  CHECK(cluster.ask(jobs).size() == 20'000);
  CHECK(fake.arguments("squeue")[4] == "--me");
  CHECK(fake.calls("squeue").size() == 1);
}

TEST_CASE("A submission is found again by its token") {
  const FakeSlurm fake;
  Cluster cluster;
  fake.let("squeue",
           "printf '12|fsdp-run:5f0c\\n12|fsdp-run:5f0c\\n13|(null)\\n14|fsdp-run:77\\n'");
  CHECK(cluster.find_submission("5f0c") == "12");
  CHECK(cluster.find_submission("77") == "14");
  CHECK(cluster.find_submission("5f") == std::nullopt);
}

TEST_CASE("Limits are read once") {
  const FakeSlurm fake;
  Cluster cluster;
  fake.let("scontrol", kAccounting);
  CHECK(cluster.limits().max_array_size == 30);
  CHECK(cluster.limits().has_accounting);
  CHECK(fake.calls("scontrol").size() == 1);

  Cluster other;
  fake.let("scontrol", kNoAccounting);
  CHECK(other.limits().max_array_size == 1001);
  CHECK_FALSE(other.limits().has_accounting);

  Cluster broken;
  fake.let("scontrol", "echo hello");
  CHECK(said_by([&] { broken.limits(); }) ==
        "unavailable: scontrol show config answers what is not its format: 'hello'");
}

TEST_CASE("Jobs and tasks are cancelled; one that is over already is no error") {
  const FakeSlurm fake;
  Cluster cluster;
  const auto cancel = [&](const Strings& jobs) { return said_by([&] { cluster.cancel(jobs); }); };
  fake.let("scancel",
           failing("scancel: error: Kill job error on job id 12: Invalid job id specified"));
  CHECK(cancel({"12", "13_4"}) == "done");
  CHECK(fake.calls("scancel") == Strings{"12 13_4 "});
  fake.let("scancel", failing("scancel: error: Unable to contact slurm controller"));
  CHECK(cancel({"12"}).starts_with("unavailable: "));
  fake.let("scancel",
           failing("scancel: error: Kill job error on job id 12: Access/permission denied"));
  CHECK(cancel({"12"}) == "error: scancel: Kill job error on job id 12: Access/permission denied");
  CHECK(cancel({}) == "done");
}

TEST_CASE("What the user's environment tells Slurm's programs does not change their answers") {
  const FakeSlurm fake;
  const Strings names = {"SQUEUE_PARTITION", "SACCT_FORMAT", "SLURM_JOB_ID", "SBATCH_ACCOUNT",
                         "SBATCH_WAIT",      "SBATCH_QOS",   "SLURM_CONF"};
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
  CHECK(seen_in(program_environment()) ==
        Strings{"SBATCH_ACCOUNT", "SBATCH_WAIT", "SBATCH_QOS", "SLURM_CONF"});
  CHECK(seen_in(submission_environment("#!/bin/bash\n#SBATCH --account=mine\n")) ==
        Strings{"SBATCH_QOS", "SLURM_CONF"});
  CHECK(seen_in(submission_environment("#!/bin/bash\n#SBATCH \"--account=my own\"\n")) ==
        Strings{"SBATCH_QOS", "SLURM_CONF"});
  for (const std::string& name : names) unsetenv(name.c_str());
}

TEST_CASE("Only reasons that waiting does not end are reasons to act") {
  const auto why = [](const std::string& reason) {
    return why_it_will_not_start(
        {.job = "12", .phase = TaskPhase::kQueued, .state = "PENDING", .reason = reason});
  };
  for (const std::string waits :
       {"", "Priority", "Resources", "JobArrayTaskLimit", "BeginTime", "AssocGrpCPURunMinutesLimit",
        "QOSMaxJobsPerUserLimit", "AssocGrpNodeLimit", "Licenses", "Reservation",
        "ReqNodeNotAvail, May be reserved for other job"}) {
    CHECK(why(waits) == std::nullopt);
  }
  CHECK(why("PartitionTimeLimit") ==
        "PartitionTimeLimit: it asks for more time than the partition gives to a job: lower "
        "slurm.time or set slurm.partition (`sinfo -s`)");
  for (const std::string stays :
       {"PartitionNodeLimit", "BadConstraints", "PartitionInactive", "PartitionDown",
        "InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed",
        "ReqNodeNotAvail, UnavailableNodes:n[1-2]", "NodeDown", "DependencyNeverSatisfied",
        "JobHeldAdmin", "launch failed requeued held", "QOSMaxNodePerJobLimit",
        "AssocMaxWallDurationPerJobLimit", "AssocGrpCPUMinutesLimit",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
        "partitions"}) {
    INFO(stays);
    CHECK(why(stays).value_or("").starts_with(stays + ": "));
  }
  CHECK(why_it_will_not_start({.job = "12",
                               .phase = TaskPhase::kRunning,
                               .state = "RUNNING",
                               .reason = "BadConstraints"}) == std::nullopt);
}

}  // namespace
}  // namespace fsdp
