#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "runner/launch/shell_quoted.h"
#include "tests/runner/slurm/script_fixture.h"

// Scripts as they were looked at once. FSDP_WRITE_GOLDEN=1 writes those that the code makes now.
namespace fsdp {
namespace {

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void check_golden(const std::string& name, const SlurmScript& script) {
  const std::filesystem::path file = std::filesystem::path(FSDP_GOLDEN_SCRIPTS) / name;
  const std::string text = render_script(template_text(script.slurm), script);
  if (std::getenv("FSDP_WRITE_GOLDEN") != nullptr) std::ofstream(file, std::ios::binary) << text;
  INFO(file.string());
  CHECK(text == read(file));
  const std::string quoted = shell_quoted(file.string());
  CHECK(std::system(("bash -n " + quoted).c_str()) == 0);
  // SC1091: /etc/profile and what a prologue reads are elsewhere.
  CHECK(std::system(("shellcheck --exclude=SC1091 " + quoted).c_str()) == 0);
}

TEST_CASE("One run with the published settings of the Slurm script") {
  check_golden("one_run.sh", published_script());
}

TEST_CASE("An array of runs with the published settings of the cluster tutorial") {
  check_golden("array.sh", published_array());
}

TEST_CASE("An allocation for all runs") {
  SlurmScript script = published_array();
  script.slurm.mode = SlurmMode::kAllocation;
  script.keeps_checkpoints = true;
  script.tasks.clear();
  check_golden("allocation.sh", script);
}

TEST_CASE("A run in an Apptainer container") {
  SlurmScript script = published_script();
  script.slurm.container.engine = ContainerEngine::kApptainer;
  script.slurm.container.image = "/project/fsdp-run.sif";
  script.slurm.container.trainer = "/opt/fsdp-run/build/cuda/fsdp-train";
  script.slurm.container.options = {"--no-home"};
  check_golden("apptainer.sh", script);
}

TEST_CASE("A run on two nodes in a Pyxis container") {
  SlurmScript script = published_script();
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
