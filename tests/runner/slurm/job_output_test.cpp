#include <catch2/catch.hpp>

#include "runner/cluster/script.h"
#include "tests/runner/slurm/script_fixture.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

// The output file of `task`, in a job whose script has slurm.output `output`.
std::string output_of(SlurmScript script, const std::string& output, const std::string& task) {
  const TemporaryFolder folder;
  script.slurm.output = output;
  script.slurm.error = "";
  folder.write(kScriptName, render_script(template_text(script.slurm), script));
  return job_output(folder.path(), task).string();
}

SlurmScript allocation() {
  SlurmScript script = script_of_one_run();
  script.slurm.mode = SlurmMode::kAllocation;
  script.array_tasks = 0;
  return script;
}

TEST_CASE("The output of a job has its name and what is known of its task") {
  const SlurmScript array = script_of_one_run();
  SlurmScript unnamed = allocation(), hostile = allocation();
  unnamed.slurm.job_name = "";  // the experiment's is used
  hostile.slurm.job_name = "a \"b\" #hetjob";
  hostile.working_directory = "/a folder";
  for (const auto& [script, output, task, expected] :
       std::vector<std::tuple<SlurmScript, const char*, const char*, const char*>>{
           {allocation(), "%x-%j.out", "12", "/project/codellama-chess-12.out"},
           {allocation(), "/logs/%A.out", "12", "/logs/12.out"},
           {allocation(), "", "12", "/project/results/slurm/chess-5f0c/12.out"},
           {array, "", "12_3", "/project/results/slurm/chess-5f0c/12_3.out"},
           {array, "logs/%x/%A/%a.out", "12_3", "/project/logs/codellama-chess/12/3.out"},
           {array, "%x-%j.out", "12_3", "/project/codellama-chess-%j.out"},
           {array, "%x-%A_%a.out", "", "/project/codellama-chess-%A_%a.out"},  // no answer yet
           {unnamed, "%x.out", "12", "/project/chess.out"},
           {hostile, "100%% %x%", "12", "/a folder/100% a \"b\" #hetjob%"}}) {
    CHECK(output_of(script, output, task) == expected);
  }
  CHECK(job_output("/results/slurm/gone", "12_3") == "/results/slurm/gone/12_3.out");
}

TEST_CASE("The messages of a job with slurm.error are in that file") {
  SlurmScript script = allocation();
  script.slurm.error = "logs/%j.err";
  const TemporaryFolder folder;
  folder.write(kScriptName, render_script(template_text(script.slurm), script));
  CHECK(job_output(folder.path(), "12") == "/project/logs/12.err");
}

TEST_CASE("A message about a job's output says if there is none, and has fsdp-run's last words") {
  const TemporaryFolder folder;
  CHECK(output_text(folder / "12.out") == (folder / "12.out").string() + " (does not exist)");
  CHECK(output_text(folder / "%j.out") == (folder / "%j.out").string());
  CHECK(last_message(folder / "12.out") == "");
  const auto file = folder.write("12.out", "fsdp-run: one\nfsdp-run: two \x1b\nother\n");
  CHECK(output_text(file) == file.string());
  CHECK(last_message(file) == "two \\x1b");
}

TEST_CASE("A folder of a job's output is created, or refused with its key") {
  const TemporaryFolder folder;
  SlurmScript script = allocation();
  script.working_directory = folder.path();
  script.slurm.output = "a/b/%j.out";
  script.slurm.error = "%x/%j.err";
  create_output_folders(script);
  CHECK(std::filesystem::is_directory(folder / "a/b"));
  CHECK_FALSE(std::filesystem::exists(folder / "%x"));
  script.slurm.error = folder.write("file", "") / "c/%j.err";
  CHECK_THROWS_WITH(create_output_folders(script),
                    Catch::StartsWith("'slurm.error': the folder ") &&
                        Catch::EndsWith("Not a directory; name a file in another folder"));
}

}  // namespace
}  // namespace fsdp
