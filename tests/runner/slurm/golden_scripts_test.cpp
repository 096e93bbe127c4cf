#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "base/system/program.h"
#include "contract/spec/yaml_value.h"
#include "formats/inputs/inputs.h"
#include "runner/experiment/experiment.h"
#include "tests/runner/slurm/script_fixture.h"

// Reviewed scripts. FSDP_WRITE_GOLDEN=1 writes the scripts that the code makes now.
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
}

// Returns the script of the array with the shipped experiment's run "FSDP".
SlurmScript chess_script(const Experiment& chess, const ExpandOptions& options) {
  const Expansion expansion = chess.expand(options, Resources{});
  const auto fsdp = std::ranges::find(expansion.runs, "FSDP", &Run::point);
  REQUIRE(fsdp != expansion.runs.end());
  SlurmScript script = script_of_one_run();  // its paths are used
  script.slurm = fsdp->spec.slurm;
  script.request = slurm_request(fsdp->spec);
  script.experiment = chess.name();
  script.keeps_checkpoints = wants_checkpoints(fsdp->spec);
  script.array_tasks = std::ranges::count_if(
      expansion.runs, [&](const Run& run) { return may_share_array(run.spec, fsdp->spec); });
  return script;
}

TEST_CASE("The runs of the cluster tutorial on four GPUs, from the shipped experiment") {
  check_golden("chess_80gbx4.sh",
               chess_script(Experiment::load(kChess), {.profile = "80gbx4", .on_cluster = true}));
}

// In the file, the site's partition, reservation, modules and prologue are comments. The test
// uncomments them.
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
  script.array_tasks = 0;
  check_golden("allocation.sh", script);
}

}  // namespace
}  // namespace fsdp
