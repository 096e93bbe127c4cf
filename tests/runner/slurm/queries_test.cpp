#include <catch2/catch.hpp>

#include "tests/runner/slurm/cluster_fixture.h"

// Tests the answers of squeue, sacct and scontrol about jobs, and the states made of them.
namespace fsdp {
namespace {

// What scontrol does where only the accounting knows of a job.
const std::string kOnlyAccounting =
    std::string("case $* in 'show config')\n") + kAccounting + ";; *) " +
    failing("slurm_load_jobs error: Invalid job id specified") + ";; esac";

TEST_CASE_METHOD(ClusterTest, "One squeue tells all tasks of all jobs") {
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
  CHECK(told(cluster.ask({"12", "15"})) ==
        Strings{"12_0 running: RUNNING on n[1-2] (), 93784 s", "12_1 running: RUNNING on n3 ()",
                "12_2 ending: COMPLETING on n3 ()", "12_3 ended: OUT_OF_MEMORY on n3 (OutOfMemory)",
                "12_4 queued: PENDING on  (JobArrayTaskLimit)",
                "12_5 queued: PENDING on  (JobArrayTaskLimit)",
                "12_7 queued: PENDING on  (JobArrayTaskLimit)",
                "15 queued: PENDING on  (Nodes required for job are DOWN, DRAINED or reserved for "
                "jobs in higher priority partitions)"});
  CHECK(fake.arguments("squeue") == Strings{"--noheader", "--all", "--array", "--states=all",
                                            fmt::format("--user={}", geteuid()), "--jobs=12,15",
                                            "--format=%i|%T|%L|%N|%r|%o"});
  CHECK(fake.calls("squeue").size() == 1);
  CHECK(fake.programs_called() == Strings{"squeue"});
}

TEST_CASE_METHOD(ClusterTest,
                 "one job is asked for without a user, since the controller sends it alone") {
  fake.let("scontrol", kNoAccounting);
  fake.let("squeue", "echo '12_0|RUNNING|1:00|n1|None'");
  CHECK(cluster.ask({"12_0"}).size() == 1);
  CHECK(fake.arguments("squeue") == Strings{"--noheader", "--all", "--array", "--states=all",
                                            "--jobs=12", "--format=%i|%T|%L|%N|%r|%o"});
}

TEST_CASE_METHOD(ClusterTest, "squeue and scontrol tell a job's script") {
  const std::string script = "/results/slurm/lab-1|2/script.sh";
  fake.let("squeue", "echo '12|RUNNING|1:00|n1|None|" + script + "'; exit 0");
  CHECK(cluster.ask({"12"}).at(0).script == script);
  fake.let("squeue", "");
  fake.let("scontrol", std::string("case $* in 'show config')\n") + kNoAccounting +
                           ";; *) echo 'JobId=12 JobState=FAILED Command=" + script + "';; esac");
  CHECK(cluster.ask({"12"}).at(0).script == script);
}

TEST_CASE_METHOD(ClusterTest,
                 "energy and memory of a task come from the accounting, where it has some") {
  fake.let("scontrol", kAccounting);
  fake.let("sacct", "echo '12_3|7200|'; echo '12_3.batch|100|2048K'; echo '12_3.0|7000|1536M'");
  CHECK(cluster.accounts("12_3") ==
        TaskAccounts{.node_energy_joules = 7200, .memory_bytes_max = int64_t{1536} << 20});
  CHECK(fake.arguments("sacct") == Strings{"--noheader", "--parsable2", "--duplicates",
                                           "--jobs=12_3",
                                           "--format=JobID,ConsumedEnergyRaw,MaxRSS"});
  for (const char* nothing : {"", "echo '12_3|0|'", "echo '12_3|4294967294|0'", "exit 1"}) {
    fake.let("sacct", nothing);
    CHECK_FALSE(cluster.accounts("12_3"));
  }
  fake.let("sacct", "echo '12_3|100|2048K'");
  fake.let("scontrol", kNoAccounting);
  CHECK_FALSE(Cluster().accounts("12_3"));
}

TEST_CASE_METHOD(ClusterTest, "another user's job that Slurm hides is not gone") {
  fake.let("scontrol", std::string("case $* in 'show config')\n") + kNoAccounting +
                           "echo 'PrivateData = accounts,jobs';; *) " +
                           failing("slurm_load_jobs error: Invalid job id specified") + ";; esac");
  fake.let("squeue", "");
  CHECK(told(cluster.ask({"12_3"}, geteuid() + 1)) ==
        Strings{"12_3 ending: UNKNOWN on  (Slurm shows the job to its user only)"});
  CHECK(cluster.ask({"12_3"}).empty());
}

TEST_CASE_METHOD(ClusterTest,
                 "A job that squeue has forgotten is told by sacct where there is one") {
  fake.let("scontrol", kAccounting);
  fake.let("squeue", failing("slurm_load_jobs error: Invalid job id specified"));
  fake.let("sacct", "echo '12_0|COMPLETED|n1'; echo '12_1|CANCELLED by 1000|None assigned'");
  CHECK(told(cluster.ask({"12"})) ==
        Strings{"12_0 ended: COMPLETED on n1 ()", "12_1 ended: CANCELLED on  ()"});
  CHECK(fake.arguments("sacct") == Strings{"--allocations", "--noheader", "--parsable2",
                                           "--jobs=12", "--format=JobID,State,NodeList"});
}

TEST_CASE_METHOD(
    ClusterTest,
    "A job that nobody knows any more is absent, and asked for once only by scontrol") {
  fake.let("scontrol", kOnlyAccounting);
  fake.let("squeue", "echo '14_0|RUNNING|1:00|n1|None'");
  fake.let("sacct", "");
  CHECK(cluster.ask({"12", "14"}).size() == 1);
  CHECK(cluster.ask({"12", "14"}).size() == 1);
  CHECK(fake.calls("scontrol") == Strings{"show config ", "--all --oneliner show job 12 "});
  CHECK(fake.calls("sacct").size() == 2);
}

TEST_CASE_METHOD(ClusterTest,
                 "Without accounting, or while its database is down, scontrol is asked") {
  const std::string jobs =
      ";; *) echo 'JobId=30 ArrayJobId=12 ArrayTaskId=3 JobName=a b=c JobState=TIMEOUT "
      "Reason=TimeLimit Dependency=(null) NodeList=n1 BatchHost=n1'\n"
      "echo 'JobId=12 ArrayJobId=12 ArrayTaskId=5-6%2 JobName=a JobState=PENDING "
      "Reason=Resources NodeList=(null)'\n;; esac";
  fake.let("squeue", "");
  fake.let("scontrol", std::string("case $* in 'show config')\n") + kNoAccounting + jobs);
  const Strings expected = {"12_3 ended: TIMEOUT on n1 (TimeLimit)",
                            "12_5 queued: PENDING on  (Resources)",
                            "12_6 queued: PENDING on  (Resources)"};
  CHECK(told(cluster.ask({"12"})) == expected);
  CHECK(fake.calls("sacct").empty());

  Cluster with_accounting;
  fake.let("scontrol", std::string("case $* in 'show config')\n") + kAccounting + jobs);
  fake.let("sacct", failing("sacct: error: slurm_persist_conn_open: Connection refused"));
  CHECK(told(with_accounting.ask({"12"})) == expected);
}

TEST_CASE_METHOD(ClusterTest,
                 "A job that only the accounting can know is not gone while that does not answer") {
  fake.let("scontrol", kOnlyAccounting);
  fake.let("squeue", "echo '14|RUNNING|1:00|n1|None'");
  fake.let("sacct", failing("sacct: error: slurm_persist_conn_open: Connection refused"));
  for (int query = 0; query < 2; ++query) {
    CHECK(told(cluster.ask({"12_3", "14"})) ==
          Strings{"14 running: RUNNING on n1 (), 60 s",
                  "12_3 ending: UNKNOWN on  (sacct does not answer)"});
  }
  fake.let("sacct", "echo '12_3|TIMEOUT|n1'");
  CHECK(cluster.ask({"12_3", "14"})[1].state == "TIMEOUT");
  fake.let("sacct", "");
  CHECK(cluster.ask({"12_3", "14"}).size() == 1);
}

TEST_CASE_METHOD(
    ClusterTest,
    "Tasks that squeue has forgotten while others of their array go on are asked for by name") {
  fake.let("scontrol", kOnlyAccounting);
  fake.let("squeue", "echo '12_0|RUNNING|1:00|n1|None'; echo '12_3|RUNNING|1:00|n2|None'");
  fake.let("sacct", "echo '12_1|OUT_OF_MEMORY|n1'; echo '12_2|RUNNING|n2'");
  CHECK(told(cluster.ask({"12_0", "12_1", "12_2"})) ==
        Strings{"12_0 running: RUNNING on n1 (), 60 s", "12_1 ended: OUT_OF_MEMORY on n1 ()"});
  CHECK(fake.arguments("squeue")[4] == "--jobs=12");
  CHECK(fake.arguments("sacct")[3] == "--jobs=12");
}

TEST_CASE_METHOD(ClusterTest, "tasks that were cancelled while they waited ended as unknown") {
  fake.let("scontrol", kAccounting);
  fake.let("squeue", "");
  for (const std::string id : {"12", "12_[0-4%1]"}) {
    fake.let("sacct", "echo '" + id + "|CANCELLED by 1000|None assigned'");
    CHECK(told(cluster.ask({"12_1", "12_3"})) ==
          Strings{"12_1 ended: CANCELLED on  ()", "12_3 ended: CANCELLED on  ()"});
  }
}

TEST_CASE_METHOD(ClusterTest,
                 "Lists of an array's tasks are asked for in full, and may have a step") {
  fake.let("scontrol", kAccounting);
  fake.let("squeue", "");
  const std::string list = "12_[0-8:4,11%2]|CANCELLED by 1000|None assigned";
  const std::string cut = "12_[0,2-3,5,7-8,10,...]|CANCELLED by 1000|None assigned";
  fake.let("sacct", "[[ ${SLURM_BITSTR_LEN-} == 0 ]] && echo '" + list + "' || echo '" + cut + "'");
  CHECK(told(cluster.ask({"12"})) ==
        Strings{"12_0 ended: CANCELLED on  ()", "12_4 ended: CANCELLED on  ()",
                "12_8 ended: CANCELLED on  ()", "12_11 ended: CANCELLED on  ()"});
  fake.let("sacct", "echo '12_[0-8:0]|CANCELLED|n1'");
  CHECK(said_by([&] { cluster.ask({"12"}); }) ==
        "unavailable: sacct answers what is not its format: '0-8:0'");
}

TEST_CASE_METHOD(ClusterTest,
                 "A controller that is down or babbles is not taken for jobs that are gone") {
  const std::string down = "slurm_load_jobs error: Unable to contact slurm controller";
  const std::vector<std::pair<std::string, std::string>> cases{
      {failing(down), "squeue: " + down},
      {"echo 'The cluster is closed'",
       "squeue answers what is not its format: 'The cluster is closed'"},
      {"echo 'twelve|RUNNING|1:00|n1|None'", "squeue answers what is not its format: 'twelve'"},
      {"echo '12_[0-99999999999]|PENDING|1:00||None'",
       "squeue answers what is not its format: '0-99999999999'"},
      {"exit 3", "squeue: exited with status 3"}};
  for (const auto& [squeue, words] : cases) {
    fake.let("squeue", squeue);
    const std::string said = said_by([&] { cluster.ask({"12"}); });
    CHECK(said == "unavailable: " + words);
  }
}

TEST_CASE_METHOD(ClusterTest,
                 "So many jobs that no argument could hold their ids are still one squeue") {
  Strings jobs;
  for (int job = 1'000'000; job < 1'020'000; ++job) jobs.push_back(std::to_string(job));
  fake.let("squeue",
           "for ((job = 999990; job < 1020000; ++job)); do echo "
           "\"$job|RUNNING|1:00|n1|None\"; done");
  CHECK(cluster.ask(jobs).size() == 20'000);
  CHECK(fake.arguments("squeue")[4] == fmt::format("--user={}", geteuid()));
  CHECK(fake.calls("squeue").size() == 1);
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
        "JobHeldAdmin", "launch failed requeued held", "job requeued in held state",
        "QOSMaxNodePerJobLimit", "AssocMaxWallDurationPerJobLimit", "AssocGrpCPUMinutesLimit",
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

TEST_CASE("partitions are told with the limits of a job in them") {
  const FakeSlurm fake;
  SlurmQueue queue;
  fake.let("scontrol",
           "echo 'PartitionName=main AllowGroups=ALL Default=YES MaxNodes=4 MaxTime=1-00:00:00 "
           "State=UP TotalCPUs=64 TotalNodes=2 DefMemPerCPU=100 MaxMemPerNode=UNLIMITED'\n"
           "echo 'PartitionName=night Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED State=DOWN "
           "TotalNodes=8 DefMemPerNode=2000 MaxMemPerNode=4000'");
  const std::vector<Partition> partitions = queue.partitions();
  REQUIRE(partitions.size() == 2);
  CHECK(partitions[0].name == "main");
  CHECK(partitions[0].is_default);
  CHECK(partitions[0].most_nodes == 2);
  CHECK(partitions[0].time_limit == "1-00:00:00");
  CHECK_FALSE(partitions[1].is_default);
  CHECK(partitions[1].state == "DOWN");
  CHECK(partitions[1].most_nodes == 8);
  CHECK(partitions[0].memory.default_mib_per_cpu == 100);
  CHECK_FALSE(partitions[0].memory.most_mib_per_node);
  CHECK(partitions[1].memory.default_mib_per_node == 2000);
  CHECK(partitions[1].memory.most_mib_per_node == 4000);
  fake.let("scontrol", "echo 'No partitions in the system'");
  CHECK_THROWS_AS(queue.partitions(), QueueUnavailable);
}

TEST_CASE("a script is tried without being submitted") {
  const FakeSlurm fake;
  SlurmQueue queue;
  const auto script = fake.folder().write("script.sh", "#!/bin/bash\n");
  fake.let("sbatch", "echo 'sbatch: Job 3 to start at 2026-11-24T20:00:00' >&2");
  CHECK_FALSE(queue.refusal(script));
  CHECK(fake.arguments("sbatch") == Strings{"--test-only", script.string()});
  fake.let("sbatch", failing("allocation failure: Requested node configuration is not available"));
  CHECK_THAT(queue.refusal(script).value(), Catch::Contains("no node has all of slurm.gpus_per"));
  fake.let("sbatch",
           failing("sbatch: error: Unable to contact slurm controller (connect failure)"));
  CHECK_THROWS_AS(queue.refusal(script), QueueUnavailable);
}

}  // namespace
}  // namespace fsdp
