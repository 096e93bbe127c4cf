#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/system/program.h"
#include "runner/cluster/script.h"
#include "tests/runner/slurm/fake_slurm.h"

// The rendered script under bash, with a fake of fsdp-run.
namespace fsdp {
namespace {

using std::filesystem::path;

// Text that a shell or sbatch could misread.
constexpr const char* kHostile =
    R"(-a 'b' "c" $(touch pwned) `touch pwned` # %t %% ;&|<>*?[]{}~! hetjob)";

class Job {
 public:
  explicit Job(const std::string& folder = "project") : working_directory_(fake.folder() / folder) {
    std::filesystem::create_directory(working_directory_);
    script.experiment = "chess";
    script.folder = working_directory_ / "slurm";
    script.runner = FSDP_FAKE_SLURM "/fsdp-run";
    script.working_directory = working_directory_;
    script.request = {.nodes = 1, .ranks_per_node = 2, .gpus_per_node = 0};
    script.array_tasks = 1;
  }

  ProgramResult run() const {
    const path file =
        fake.folder().write("script.sh", render_script(template_text(script.slurm), script));
    const ProgramResult result = run_program(
        {"bash", file.string()},
        {"PATH=" + std::string(getenv("PATH")), "FAKE_SLURM=" + fake.folder().path().string(),
         "SLURMD_NODENAME=n1", "SLURM_CPUS_PER_TASK=3", "RANK=5", "WORLD_SIZE=8",
         "MASTER_PORT=1234", "OMP_NUM_THREADS=99", "TORCHELASTIC_USE_AGENT_STORE=True",
         "GROUP_RANK=2", "PMI_RANK=7"},
        std::chrono::seconds(60));
    REQUIRE_FALSE(result.timed_out);
    return result;
  }

  FakeSlurm fake;
  SlurmScript script;

 private:
  path working_directory_;
};

TEST_CASE("fsdp-run takes the script's place, without what the submitting shell had been told") {
  Job job("a 'b' project");
  job.script.slurm.environment = {"NCCL_DEBUG=INFO"};
  job.fake.let("fsdp-run", "env >\"$FAKE_SLURM/environment\"; pwd; exit 9");
  const ProgramResult result = job.run();
  CHECK(result.error == "");
  CHECK(result.exit_status == 9);
  CHECK(result.output == job.script.working_directory.string() + '\n');
  CHECK(job.fake.arguments("fsdp-run") ==
        std::vector<std::string>{"attempt", job.script.folder.string()});
  const std::string environment = '\n' + text_of(job.fake.folder() / "environment");
  CHECK(environment.find("\nNCCL_DEBUG=INFO\n") != std::string::npos);
  CHECK(environment.find("\nOMP_NUM_THREADS=3\n") != std::string::npos);
  CHECK(environment.find("\nCUDA_DEVICE_ORDER=PCI_BUS_ID\n") != std::string::npos);
  for (const std::string gone : {"\nRANK=", "\nWORLD_SIZE=", "\nMASTER_PORT=", "\nPMI_RANK=",
                                 "\nTORCHELASTIC_USE_AGENT_STORE=", "\nGROUP_RANK="}) {
    CHECK(environment.find(gone) == std::string::npos);
  }
}

TEST_CASE("A folder that is not on the node ends the job") {
  Job job;
  job.script.working_directory = "/no/such/folder";
  const ProgramResult result = job.run();
  CHECK(result.exit_status == 1);
  CHECK(result.error.find("no such folder on n1: put it on a shared file system") !=
        std::string::npos);
  CHECK(job.fake.calls("fsdp-run").empty());
}

TEST_CASE("Modules are loaded over none; one that cannot be loaded ends the job") {
  Job job;
  job.script.slurm.modules = {"gcc/12.2", "cuda"};
  CHECK(job.run().exit_status == 0);
  CHECK(job.fake.calls("module") == std::vector<std::string>{"purge ", "load gcc/12.2 cuda "});
  CHECK(job.fake.calls("fsdp-run").size() == 1);

  job.fake.let("module", "[[ $1 != load ]]");
  const ProgramResult result = job.run();
  CHECK(result.exit_status == 1);
  CHECK(result.error == "fsdp-run: a module of slurm.modules cannot be loaded\n");
  CHECK(job.fake.calls("fsdp-run").size() == 1);
}

TEST_CASE("A line of the prologue that fails ends the job with this line") {
  Job job;
  const auto message_after = [&](const std::vector<std::string>& lines) {
    job.script.slurm.prologue = lines;
    const size_t calls = job.fake.calls("fsdp-run").size();
    const ProgramResult result = job.run();
    CHECK(result.exit_status == 1);
    CHECK(job.fake.calls("fsdp-run").size() == calls);
    return result.error;
  };
  const std::string failed = "fsdp-run: a line of slurm.prologue failed: ";
  CHECK(message_after({"true", "test -e /no/such/file"}) == failed + "test -e /no/such/file\n");
  CHECK(message_after({"for i in 1 2; do", "  false", "done"}) == failed + "  false\n");
  CHECK_THAT(message_after({"source /no/such/file"}),
             Catch::EndsWith(failed + "source /no/such/file\n"));
  CHECK(message_after({"load() { false; true; return 7; }", "load one"}) == failed + "load one\n");
}

TEST_CASE("A prologue keeps its blocks and variables, and commands in scripts may fail") {
  Job job;
  const path activate = job.fake.folder().write("activate", "false\nhash -r\nexport A=1\n");
  job.script.slurm.prologue = {"source " + activate.string(),
                               "if test -e /no/such/file; then",
                               "  exit 1",
                               "else",
                               "  export B=2",
                               "fi",
                               "test -e /no/such/file || export C=3",
                               "conda() { false; export D=4; }",
                               "conda activate",
                               "cat <<'EOF' >\"$FAKE_SLURM/text\"",
                               "two lines",
                               "EOF",
                               "false || true"};
  job.fake.let("fsdp-run", "false; [[ $A$B$C$D == 1234 ]]");
  const ProgramResult result = job.run();
  CHECK(result.error == "");
  CHECK(result.exit_status == 0);
  CHECK(text_of(job.fake.folder() / "text") == "two lines\n");
}

TEST_CASE("Every value stays one word") {
  Job job(kHostile);
  job.script.slurm.modules = {kHostile};
  job.script.slurm.environment = {std::string("HOSTILE=") + kHostile};
  job.script.slurm.prologue = {"printf '%s\\n' \"$HOSTILE\" >\"$FAKE_SLURM/hostile\""};
  job.fake.let("fsdp-run", "[[ $HOSTILE == \"$(<\"$FAKE_SLURM/hostile\")\" ]]");
  const ProgramResult result = job.run();
  CHECK(result.error == "");
  CHECK(result.exit_status == 0);
  CHECK(text_of(job.fake.folder() / "hostile") == std::string(kHostile) + '\n');
  CHECK(text_of(job.fake.folder() / "module.arguments") == "load\n" + std::string(kHostile) + '\n');
  CHECK(job.fake.arguments("fsdp-run").at(1) == job.script.folder.string());
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(job.fake.folder().path())) {
    CHECK(entry.path().filename() != "pwned");
  }
}

}  // namespace
}  // namespace fsdp
