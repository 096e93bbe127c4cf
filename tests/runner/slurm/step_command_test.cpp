#include <catch2/catch.hpp>

#include "base/text/config_error.h"
#include "runner/cluster/step_launcher.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

using Words = std::vector<std::string>;

const SlurmRequest kTwoGpus{.nodes = 1, .ranks_per_node = 2, .gpus_per_node = 2};

SlurmSpec in_container(ContainerEngine engine, const std::string& image) {
  SlurmSpec slurm;
  slurm.cpus_per_task = 10;
  slurm.container.engine = engine;
  slurm.container.image = image;
  slurm.container.trainer = "/opt/fsdp-run/fsdp-train";
  return slurm;
}

StepCommand command_of(const SlurmSpec& slurm, const SlurmRequest& request) {
  return step_command(slurm, request, "/project/fsdp-train", "/project", {"/models", "/data"});
}

TEST_CASE("Ranks in an Apptainer container see the GPUs and the folders of the run") {
  const auto [engine, program] = GENERATE(std::pair(ContainerEngine::kApptainer, "apptainer"),
                                          std::pair(ContainerEngine::kSingularity, "singularity"));
  SlurmSpec slurm = in_container(engine, "/project/fsdp-run.sif");
  slurm.container.options = {"--no-home"};
  const StepCommand command = command_of(slurm, kTwoGpus);
  CHECK(command.srun == Words{"srun", "--nodes=1", "--ntasks=2", "--ntasks-per-node=2",
                              "--cpus-per-task=10", "--export=ALL", "--wait=60",
                              "--kill-on-bad-exit=0", "--mpi=none", "--gres=gpu:2"});
  CHECK(command.trainer == Words{program, "exec", "--nv", "--pwd=/project",
                                 "--bind=/project:/project", "--bind=/models:/models",
                                 "--bind=/data:/data", "--no-home", "/project/fsdp-run.sif",
                                 "/opt/fsdp-run/fsdp-train"});
}

TEST_CASE("Ranks in a Podman container are on their host as if there were none") {
  SlurmSpec slurm = in_container(ContainerEngine::kPodman, "localhost/fsdp-run");
  slurm.container.options = {"--userns=keep-id"};
  CHECK(command_of(slurm, kTwoGpus).trainer ==
        Words{"podman", "run", "--rm", "--env-host", "--network=host", "--ipc=host", "--pid=host",
              "--cgroups=disabled", "--device=nvidia.com/gpu=all", "--workdir=/project",
              "--volume=/project:/project", "--volume=/models:/models", "--volume=/data:/data",
              "--userns=keep-id", "localhost/fsdp-run", "/opt/fsdp-run/fsdp-train"});
}

TEST_CASE("A step asks for no MPI, and is bound as its keys say") {
  SlurmSpec slurm;
  slurm.mpi = "pmix";
  slurm.cpu_bind = "cores";
  slurm.gpu_bind = "closest";
  const Words words = command_of(slurm, kTwoGpus).srun;
  CHECK(Words(words.end() - 4, words.end()) ==
        Words{"--mpi=pmix", "--cpu-bind=cores", "--gres=gpu:2", "--gpu-bind=closest"});
  CHECK(command_of(slurm, {}).srun.back() == "--cpu-bind=cores");
  CHECK(command_of(SlurmSpec(), {}).srun.back() == "--mpi=none");
  slurm = {};
  slurm.mpi = "";
  CHECK(command_of(slurm, {}).srun.back() == "--kill-on-bad-exit=0");
}

TEST_CASE("A container sees the folders that links lead to, before the folders of the links") {
  const TemporaryFolder folder;
  const std::filesystem::path root = std::filesystem::canonical(folder.path());
  const auto link = [&](const std::string& name, const std::string& target) {
    std::filesystem::create_directories((root / name).parent_path());
    std::filesystem::create_symlink(target, root / name);
  };
  for (const std::string name : {"hub/blobs/1234", "store/models/a/x", "data/plain"}) {
    std::filesystem::create_directories((root / name).parent_path());
    folder.write(name, "");
  }
  link("hub/snapshots/c0ffee/model", "../../blobs/1234");
  link("middle/x", (root / "store/models/a/x").string());
  link("named/x", "../middle/x");
  link("models", "store/models");
  link("loop", "loop");
  const auto folders = [&](const std::vector<std::string>& files) {
    std::vector<std::filesystem::path> paths;
    for (const std::string& file : files) paths.push_back(root / file);
    std::vector<std::string> found;
    for (const auto& each : folders_to_bind(paths)) {
      found.push_back(each.lexically_relative(root).string());
    }
    return found;
  };
  CHECK(folders({"data/plain"}) == Words{"data"});
  CHECK(folders({"hub/snapshots/c0ffee/model", "data/plain"}) ==
        Words{"data", "hub/blobs", "hub/snapshots/c0ffee"});
  CHECK(folders({"named/x"}) == Words{"store/models/a", "middle", "named"});
  CHECK(folders({"models/a/x"}) == Words{"store/models/a", "models/a"});
  CHECK(folders({"models/a/../a/x", "store/models/a/x"}) == Words{"store/models/a", "models/a"});
  CHECK(folders({"loop"}) == Words{"."});
}

TEST_CASE("Ranks in a Pyxis container are srun's to start") {
  SlurmSpec slurm = in_container(ContainerEngine::kPyxis, "registry.example.org#course/fsdp:1");
  slurm.gpu_request = GpuRequest::kGpusPerNode;
  slurm.srun_options = {"--network=sn_all"};
  slurm.container.options = {"--no-container-mount-home"};
  const StepCommand command =
      command_of(slurm, {.nodes = 2, .ranks_per_node = 2, .gpus_per_node = 2});
  CHECK(command.srun == Words{"srun", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2",
                              "--cpus-per-task=10", "--export=ALL", "--wait=60",
                              "--kill-on-bad-exit=0", "--mpi=none", "--gpus-per-node=2",
                              "--network=sn_all",
                              "--container-image=registry.example.org#course/fsdp:1",
                              "--container-mounts=/project:/project,/models:/models,/data:/data",
                              "--container-workdir=/project", "--no-container-mount-home"});
  CHECK(command.trainer == Words{"/opt/fsdp-run/fsdp-train"});
}

TEST_CASE("A container that cannot be started is refused with its key") {
  const auto key_of_refusal = [](const SlurmSpec& slurm, const std::filesystem::path& folder) {
    try {
      step_command(slurm, kTwoGpus, "/fsdp-train", "/project", {folder});
    } catch (const ConfigError& error) {
      return error.key();
    }
    return std::string("accepted");
  };
  SlurmSpec slurm = in_container(ContainerEngine::kApptainer, "i.sif");
  CHECK(key_of_refusal(slurm, "/models") == "accepted");
  CHECK(key_of_refusal(slurm, "/a:b") == "slurm.container");
  slurm.container.options = {"-e"};
  CHECK(key_of_refusal(slurm, "/models") == "slurm.container.options");
  CHECK(key_of_refusal(in_container(ContainerEngine::kPyxis, ""), "/models") ==
        "slurm.container.image");
}

}  // namespace
}  // namespace fsdp
