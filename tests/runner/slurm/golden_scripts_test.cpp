#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "contract/inputs/inputs.h"
#include "contract/record/run_paths.h"
#include "contract/spec/yaml_value.h"
#include "runner/experiment/experiment.h"
#include "runner/launch/shell_quoted.h"
#include "tests/runner/slurm/script_fixture.h"

// Scripts as they were looked at once. FSDP_WRITE_GOLDEN=1 writes those that the code makes now.
namespace fsdp {
namespace {

const std::filesystem::path kChess = std::filesystem::path(FSDP_EXPERIMENTS_FOLDER) / "chess.yaml";

void check_golden(const std::string& name, const SlurmScript& script) {
  const std::filesystem::path file = std::filesystem::path(FSDP_GOLDEN_SCRIPTS) / name;
  const std::string text = render_script(template_text(script.slurm), script);
  if (std::getenv("FSDP_WRITE_GOLDEN") != nullptr) std::ofstream(file, std::ios::binary) << text;
  INFO(file.string());
  CHECK(text == read_text_file(file));
  const std::string quoted = shell_quoted(file.string());
  CHECK(std::system(("bash -n " + quoted).c_str()) == 0);
  // SC1091: /etc/profile and what a prologue reads are elsewhere.
  CHECK(std::system(("shellcheck --exclude=SC1091 " + quoted).c_str()) == 0);
}

// The script of those runs of the shipped experiment that share an array with its run "FSDP".
SlurmScript chess_script(const Experiment& chess, const ExpandOptions& options) {
  const Expansion expansion = chess.expand(options, Resources{});
  const auto fsdp = std::ranges::find(expansion.runs, "FSDP", &Run::point);
  REQUIRE(fsdp != expansion.runs.end());
  SlurmScript script = script_of_one_run();  // for the paths
  script.slurm = fsdp->spec.slurm;
  script.request = slurm_request(fsdp->spec);
  script.experiment = chess.name();
  script.keeps_checkpoints = wants_checkpoints(fsdp->spec);
  script.folders = {};
  script.tasks.clear();
  for (const Run& run : expansion.runs) {
    if (!may_share_array(run.spec, fsdp->spec)) continue;
    const std::string folder = safe_file_name(run.point) + "-0123abcd";
    script.tasks.push_back({.spec = "/project/results/runs/chess/" + folder + "/run.yaml",
                            .configuration = run_configuration(run.point, run.spec)});
  }
  return script;
}

TEST_CASE("The runs of the cluster tutorial on four GPUs, from the shipped experiment") {
  check_golden("chess_80gbx4.sh",
               chess_script(Experiment::load(kChess), {.profile = "80gbx4", .on_cluster = true}));
}

// Its partition, reservation, modules and environment are a site's own, so the file has them as
// comments.
TEST_CASE("The published Slurm script on two GPUs, from the shipped experiment") {
  const std::string text =
      std::regex_replace(read_text_file(kChess),
                         std::regex("    # (partition|reservation|modules|prologue):"), "    $1:");
  check_golden("chess_gpux2.sh",
               chess_script(Experiment::from_text(kChess, text),
                            {.profile = "gpux2", .only = {"FSDP"}, .on_cluster = true}));
}

TEST_CASE("An array of runs with what a site may ask for") {
  check_golden("array.sh", script_of_array());
}

TEST_CASE("An allocation for all runs") {
  SlurmScript script = script_of_array();
  script.slurm.mode = SlurmMode::kAllocation;
  script.keeps_checkpoints = true;
  script.tasks.clear();
  check_golden("allocation.sh", script);
}

TEST_CASE("A run in an Apptainer container") {
  SlurmScript script = script_of_one_run();
  script.slurm.container.engine = ContainerEngine::kApptainer;
  script.slurm.container.image = "/project/fsdp-run.sif";
  script.slurm.container.trainer = "/opt/fsdp-run/build/cuda/fsdp-train";
  script.slurm.container.options = {"--no-home"};
  check_golden("apptainer.sh", script);
}

TEST_CASE("A run on two nodes in a Pyxis container") {
  SlurmScript script = script_of_one_run();
  script.slurm.nodes = 2;
  script.slurm.gpu_request = GpuRequest::kGpusPerNode;
  script.slurm.container.engine = ContainerEngine::kPyxis;
  script.slurm.container.image = "registry.example.org#course/fsdp-run:1";
  script.slurm.container.trainer = "/opt/fsdp-run/build/cuda/fsdp-train";
  script.slurm.container.options = {"--no-container-mount-home"};
  script.slurm.srun_options = {"--network=sn_all"};
  script.slurm.sbatch_options = {"--nice=100"};
  script.request = {.nodes = 2, .ranks_per_node = 2, .gpus_per_node = 2};
  check_golden("pyxis.sh", script);
}

}  // namespace
}  // namespace fsdp
