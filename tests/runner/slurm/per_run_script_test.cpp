#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "runner/slurm/run_program.h"
#include "runner/slurm/script.h"
#include "tests/runner/slurm/fake_slurm.h"

// The rendered script under bash, with fakes of srun and scontrol.
namespace fsdp {
namespace {

using std::filesystem::path;

// Everything that a shell, sbatch or srun could take for something else.
constexpr const char* kHostile =
    R"(-a 'b' "c" $(touch pwned) `touch pwned` # %t %% ;&|<>*?[]{}~! hetjob)";

class Job {
 public:
  explicit Job(const std::string& folder = "project") : working_directory_(fake.folder() / folder) {
    std::filesystem::create_directory(working_directory_);
    script.experiment = "chess";
    script.token = "5f0c";
    script.folder = working_directory_ / "slurm";
    script.runner = "/bin/false";
    script.trainer = "/opt/fsdp-train";
    script.working_directory = working_directory_;
    script.request = {.nodes = 1, .ranks_per_node = 2, .gpus_per_node = 0};
    script.slurm.cpus_per_task = 3;
    script.keeps_checkpoints = true;
    add_run("run");
    fake.let("squeue", "echo RUNNING");
  }

  path add_run(const std::string& name) {
    const path folder = working_directory_ / name;
    std::filesystem::create_directory(folder);
    script.tasks.push_back(
        {.spec = folder / "run.yaml", .configuration = "configuration of " + name});
    return folder;
  }

  ProgramResult run(const std::vector<std::string>& variables = {}, int task = 0) const {
    const path file =
        fake.folder().write("script.sh", render_script(template_text(script.slurm), script));
    std::vector<std::string> environment = {"PATH=" + std::string(getenv("PATH")),
                                            "FAKE_SLURM=" + fake.folder().path().string(),
                                            "SLURM_JOB_ID=77",
                                            "SLURM_ARRAY_JOB_ID=12",
                                            "SLURM_ARRAY_TASK_ID=" + std::to_string(task),
                                            "SLURM_JOB_NODELIST=n[1-2]",
                                            "SLURMD_NODENAME=n1",
                                            "SLURM_CPUS_PER_TASK=3",
                                            "RANK=5",
                                            "WORLD_SIZE=8",
                                            "MASTER_PORT=1234",
                                            "OMP_NUM_THREADS=99",
                                            "TORCHELASTIC_USE_AGENT_STORE=True",
                                            "GROUP_RANK=2",
                                            "PMI_RANK=7"};
    environment.insert(environment.end(), variables.begin(), variables.end());
    const ProgramResult result =
        run_program({"bash", file.string()}, environment, std::chrono::seconds(60));
    REQUIRE_FALSE(result.timed_out);
    return result;
  }

  nlohmann::json read(const std::string& name) const {
    return nlohmann::json::parse(text_of(script.tasks[0].spec.parent_path() / name));
  }
  bool has(const std::string& name) const {
    return std::filesystem::exists(script.tasks[0].spec.parent_path() / name);
  }

  FakeSlurm fake;
  SlurmScript script;

 private:
  path working_directory_;
};

// srun that has its parent, the script, get a signal, and ends when the script passes USR1 on.
std::string srun_during(const std::string& signal, int exit_status) {
  return "trap 'echo USR1 >>\"$FAKE_SLURM/srun.signals\"; exit " + std::to_string(exit_status) +
         "' USR1\nkill -" + signal + " $PPID\nwhile :; do sleep 0.01; done\n";
}

TEST_CASE("A task runs its run as the first attempt") {
  Job job;
  job.fake.let("srun", "env >\"$FAKE_SLURM/environment\"; pwd >\"$FAKE_SLURM/pwd\"");
  const ProgramResult result = job.run();
  CHECK(result.error == "");
  CHECK(result.exit_status == 0);
  const std::string run = job.script.tasks[0].spec.parent_path().string();
  CHECK(job.fake.arguments("srun") ==
        std::vector<std::string>{
            "--nodes=1", "--ntasks=2", "--ntasks-per-node=2", "--cpus-per-task=3", "--export=ALL",
            "--wait=60", "--kill-on-bad-exit=0", "--output=" + run + "/attempt-1/rank%t.log",
            "/opt/fsdp-train", "--spec", run + "/run.yaml", "--attempt", "1"});
  CHECK(lines_of(result.output) ==
        std::vector<std::string>{"job 12_0 on n[1-2], start 1 of at most 4",
                                 "configuration of run, OMP_NUM_THREADS 3", "attempt 1: exited"});

  const nlohmann::json launch = job.read("attempt-1/launch.json");
  CHECK(launch.at("job") == "12_0");
  CHECK(launch.at("node_list") == "n[1-2]");
  CHECK(launch.at("host") == "n1");
  const nlohmann::json end = job.read("attempt-1/end.json");
  CHECK(end.at("outcome") == "exited");
  CHECK(end.at("reason") == "");
  CHECK(end.at("first_rank") == -1);
  const int64_t started = launch.at("started_unix_ms");
  CHECK(started > 1'700'000'000'000);
  CHECK(end.at("ended_unix_ms") >= started);

  CHECK(lines_of(text_of(job.fake.folder() / "pwd")) ==
        std::vector<std::string>{job.script.working_directory.string()});
  const std::string environment = text_of(job.fake.folder() / "environment");
  CHECK(environment.find("OMP_NUM_THREADS=3\n") != std::string::npos);
  for (const std::string gone : {"\nRANK=", "\nWORLD_SIZE=", "\nMASTER_PORT=", "\nPMI_RANK=",
                                 "\nTORCHELASTIC_USE_AGENT_STORE=", "\nGROUP_RANK="}) {
    CHECK(('\n' + environment).find(gone) == std::string::npos);
  }
  CHECK(job.fake.calls("scontrol").empty());
}

TEST_CASE("Another task runs another run, as the first attempt that is free") {
  Job job;
  const path second = job.add_run("second");
  std::filesystem::create_directory(second / "attempt-1");
  const ProgramResult result = job.run({}, 1);
  CHECK(result.exit_status == 0);
  CHECK(result.output.find("configuration of second") != std::string::npos);
  CHECK(nlohmann::json::parse(text_of(second / "attempt-2/launch.json")).at("job") == "12_1");
  CHECK(std::filesystem::exists(second / "attempt-2/end.json"));
  CHECK_FALSE(job.has("attempt-1"));
}

TEST_CASE("srun's failure is the attempt's and the job's") {
  Job job;
  job.fake.let("srun", "exit 7");
  CHECK(job.run().exit_status == 7);
  CHECK(job.read("attempt-1/end.json").at("outcome") == "failed");
  CHECK(job.read("attempt-1/end.json").at("reason") == "srun exited with status 7");
  CHECK(job.fake.calls("scontrol").empty());
}

TEST_CASE("Ahead of the time limit ranks are asked to stop, and the job is queued again") {
  Job job;
  job.fake.let("srun", srun_during("USR1", 130));
  CHECK(job.run({"SLURM_RESTART_COUNT=2"}).exit_status == 130);
  CHECK(text_of(job.fake.folder() / "srun.signals") == "USR1\n");
  CHECK(job.read("attempt-1/end.json").at("outcome") == "time_limit");
  CHECK(job.fake.calls("scontrol") == std::vector<std::string>{"requeue 12_0 "});
}

TEST_CASE("A job is not queued again when it was so often enough") {
  Job job;
  job.fake.let("srun", srun_during("USR1", 130));
  CHECK(job.run({"SLURM_RESTART_COUNT=3"}).exit_status == 130);
  CHECK(job.read("attempt-1/end.json").at("outcome") == "time_limit");
  CHECK(job.fake.calls("scontrol").empty());

  const ProgramResult result = job.run({"SLURM_RESTART_COUNT=4"});
  CHECK(result.exit_status == 1);
  CHECK(result.error == "fsdp-run: started again 3 times already, which is slurm.max_restarts\n");
  CHECK_FALSE(job.has("attempt-2"));
}

TEST_CASE("A run without checkpoints is not queued again") {
  Job job;
  job.script.keeps_checkpoints = false;
  job.fake.let("srun", srun_during("USR1", 130));
  job.run();
  CHECK(job.read("attempt-1/end.json").at("outcome") == "time_limit");
  CHECK(job.fake.calls("scontrol").empty());
}

TEST_CASE("A preempted or cancelled job's ranks are asked to stop; Slurm queues it again or not") {
  Job job;
  job.fake.let("srun", srun_during("TERM", 130));
  CHECK(job.run().exit_status == 130);
  CHECK(text_of(job.fake.folder() / "srun.signals") == "USR1\n");
  CHECK(job.read("attempt-1/end.json").at("outcome") == "interrupted");
  CHECK(job.fake.calls("scontrol").empty());
}

TEST_CASE("A job that is cancelled while its ranks stop near the time limit stays so") {
  Job job;
  job.fake.let("srun", srun_during("USR1", 130));
  job.fake.let("squeue", "echo CANCELLED");
  job.run();
  CHECK(job.read("attempt-1/end.json").at("outcome") == "time_limit");
  CHECK(job.fake.calls("squeue") ==
        std::vector<std::string>{"--noheader --jobs=12_0 --format=%T "});
  CHECK(job.fake.calls("scontrol").empty());
}

TEST_CASE("Ranks that were asked to stop without their job are those of a preemption with grace") {
  Job job;
  job.script.keeps_checkpoints = GENERATE(false, true);
  job.fake.let("srun", "exit 130");
  CHECK(job.run().exit_status == 130);
  CHECK(job.read("attempt-1/end.json").at("outcome") == "interrupted");
  CHECK(job.read("attempt-1/end.json").at("reason") == "");
  CHECK(job.fake.calls("scontrol") == std::vector<std::string>{"requeue 12_0 "});
}

TEST_CASE("A memory limit is the reason, whether srun or slurmstepd says so") {
  Job job;
  const std::string by_srun = "echo 'srun: error: n1: task 1: Out Of Memory' >&2; exit 1";
  const std::string by_slurmstepd =
      "for word; do [[ $word != --output=* ]] || log=${word#*=}; done\n"
      "echo 'slurmstepd: error: Detected 1 oom_kill event in StepId=77.0.' >\"${log//%t/1}\"\n"
      "exit 137";
  job.fake.let("srun", GENERATE_COPY(by_srun, by_slurmstepd));
  CHECK(job.run().exit_status != 0);
  CHECK(job.read("attempt-1/end.json").at("outcome") == "out_of_memory");
  CHECK(job.read("attempt-1/end.json").at("reason") ==
        "the job's memory limit (slurm.mem) was reached");
}

TEST_CASE("What a program of the run says of memory is no word of Slurm") {
  Job job;
  job.fake.let("srun", "echo 'error: Out Of Memory, oom_kill event' >&2; exit 1");
  CHECK(job.run().error == "error: Out Of Memory, oom_kill event\n");
  CHECK(job.read("attempt-1/end.json").at("outcome") == "failed");
}

TEST_CASE("A node that takes ranks with it is the reason, whether the others are stopped or fail") {
  Job job;
  const std::string says =
      "for word; do [[ $word != --output=* ]] || log=${word#*=}; done\n"
      "echo 'slurmstepd-n1: error: *** STEP 77.0 ON n1 CANCELLED AT 2026-11-21T22:43:21 DUE TO "
      "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***' >\"${log//%t/0}\"\n";
  job.fake.let("srun", says + GENERATE(as<std::string>(), srun_during("TERM", 4), "exit 4"));
  CHECK(job.run().exit_status == 4);
  CHECK(job.read("attempt-1/end.json").at("outcome") == "node_failed");
  CHECK(job.read("attempt-1/end.json").at("reason") == "a node of the job failed");
  CHECK(job.fake.calls("scontrol").empty());
}

TEST_CASE("A run that ends in the time it was left is no time limit") {
  Job job;
  job.fake.let("srun", srun_during("USR1", 0));
  CHECK(job.run().exit_status == 0);
  CHECK(job.read("attempt-1/end.json").at("outcome") == "exited");
  CHECK(job.fake.calls("scontrol").empty());
}

TEST_CASE("Without room for launch.json there is no attempt") {
  Job job;
  job.script.slurm.prologue = {"trap '' XFSZ", "ulimit -f 0"};
  const ProgramResult result = job.run();
  CHECK(result.exit_status == 1);
  CHECK(result.error.find("fsdp-run: cannot write ") != std::string::npos);
  CHECK_FALSE(job.has("attempt-1"));
  CHECK(job.fake.calls("srun").empty());
}

TEST_CASE("Without room for end.json the job says so and keeps its status") {
  Job job;
  job.script.slurm.prologue = {"trap '' XFSZ"};
  job.fake.let("srun", "prlimit --pid $PPID --fsize=0; exit 5");
  const ProgramResult result = job.run();
  CHECK(result.exit_status == 5);
  CHECK(result.error.find("fsdp-run: cannot write ") != std::string::npos);
  CHECK_FALSE(job.has("attempt-1/end.json"));
}

TEST_CASE("A run's folder that is not on the node ends the job") {
  Job job;
  std::filesystem::remove_all(job.script.tasks[0].spec.parent_path());
  const ProgramResult result = job.run();
  CHECK(result.exit_status == 1);
  CHECK(result.error == "fsdp-run: cannot make " + job.script.tasks[0].spec.parent_path().string() +
                            "/attempt-1 on n1\n");

  job.script.working_directory = "/no/such/folder";
  CHECK(job.run().error.find("no such folder on n1: put it on a shared file system") !=
        std::string::npos);
}

TEST_CASE("Modules are loaded over none; one that cannot be loaded ends the job") {
  Job job;
  job.script.slurm.modules = {"gcc/12.2", "cuda"};
  CHECK(job.run().exit_status == 0);
  CHECK(job.fake.calls("module") == std::vector<std::string>{"purge ", "load gcc/12.2 cuda "});

  job.fake.let("module", "[[ $1 != load ]]");
  const ProgramResult result = job.run();
  CHECK(result.exit_status == 1);
  CHECK(result.error == "fsdp-run: a module of slurm.modules cannot be loaded\n");
  CHECK_FALSE(job.has("attempt-2"));
}

TEST_CASE("Every value stays one word") {
  Job job(kHostile);
  job.script.slurm.modules = {kHostile};
  job.script.slurm.environment = {std::string("HOSTILE=") + kHostile};
  job.script.slurm.srun_options = {std::string("--comment=") + kHostile};
  job.script.slurm.prologue = {"printf '%s\\n' \"$HOSTILE\" >\"$FAKE_SLURM/hostile\""};
  job.script.trainer = std::string("/opt/") + kHostile;
  job.script.tasks.clear();
  const path run = job.add_run(std::string("run ") + kHostile);
  job.script.tasks[0].configuration = kHostile;
  job.fake.let("srun", "[[ $HOSTILE == \"$(<\"$FAKE_SLURM/hostile\")\" ]]");
  const ProgramResult result = job.run();
  CHECK(result.error == "");
  CHECK(result.exit_status == 0);
  CHECK(lines_of(result.output).at(1) == std::string(kHostile) + ", OMP_NUM_THREADS 3");
  CHECK(text_of(job.fake.folder() / "hostile") == std::string(kHostile) + '\n');
  CHECK(text_of(job.fake.folder() / "module.arguments") == "load\n" + std::string(kHostile) + '\n');

  std::string pattern = (run / "attempt-1").string();
  for (size_t at = 0; (at = pattern.find('%', at)) != std::string::npos; at += 2) {
    pattern.insert(at, 1, '%');
  }
  const std::vector<std::string> arguments = job.fake.arguments("srun");
  REQUIRE(arguments.size() == 14);
  CHECK(arguments[7] == std::string("--comment=") + kHostile);
  CHECK(arguments[8] == "--output=" + pattern + "/rank%t.log");
  CHECK(arguments[9] == std::string("/opt/") + kHostile);
  CHECK(arguments[11] == (run / "run.yaml").string());
  CHECK(job.has("attempt-1/end.json"));
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(job.fake.folder().path())) {
    CHECK(entry.path().filename() != "pwned");
  }
}

TEST_CASE("In an allocation fsdp-run takes the script's place") {
  Job job("a 'b' project");
  job.script.slurm.mode = SlurmMode::kAllocation;
  job.script.runner = FSDP_FAKE_SLURM "/fsdp-run";
  job.script.slurm.environment = {"NCCL_DEBUG=INFO"};
  job.fake.let("fsdp-run", "echo \"$NCCL_DEBUG ${RANK:-none}\"; exit 9");
  const ProgramResult result = job.run();
  CHECK(result.exit_status == 9);
  CHECK(result.output == "INFO none\n");
  CHECK(job.fake.arguments("fsdp-run") ==
        std::vector<std::string>{"allocation", job.script.folder.string()});
}

}  // namespace
}  // namespace fsdp
