#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/text/fields.h"

// A run's request to Slurm. Only the runner acts on it, with --launcher slurm. It is not part of a
// run's identity. Every text in it is one line, so it cannot add lines to a job's script.
//
// To add an option of sbatch: add a member of SlurmSpec, its line in runner/cluster/script.cpp, and
// its line of script_options in runner/cluster/request.cpp.
namespace fsdp {

inline constexpr double kMostMemoryGib = 1e6;

enum class SlurmMode { kPerRun, kAllocation };
enum class GpuRequest { kGres, kGpusPerNode };
enum class ContainerEngine { kNone, kApptainer, kSingularity, kPodman, kPyxis };

constexpr auto enum_names(SlurmMode) { return std::array{"per_run"sv, "allocation"sv}; }
constexpr auto enum_names(GpuRequest) { return std::array{"gres"sv, "gpus_per_node"sv}; }
constexpr auto enum_names(ContainerEngine) {
  return std::array{"none"sv, "apptainer"sv, "singularity"sv, "podman"sv, "pyxis"sv};
}

// Forms of text, each one line without control characters. They are: any text, a time or an amount
// of memory in Slurm's notation, a variable NAME=value, and a long option of sbatch.
Range one_line();
Range slurm_time();
Range slurm_memory();
Range assignment();
Range sbatch_option();

struct SlurmSpec;

// The memory that `mem` requests on each node. nullopt if `mem` is absent (the cluster's default)
// or 0 (all of a node's memory).
std::optional<int64_t> node_memory_bytes(const SlurmSpec& slurm);

struct SlurmContainerSpec {
  ContainerEngine engine = ContainerEngine::kNone;
  std::string image;
  std::vector<std::string> options;
  std::filesystem::path trainer;

  bool operator==(const SlurmContainerSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("engine", self.engine,
          "What starts the trainer inside of an image: apptainer or singularity exec --nv, podman "
          "run, or srun's --container-image (Pyxis).");
    visit("image", self.image, "The image, as the engine names it: a file or an address.",
          one_line());
    visit("options", self.options,
          "Further options of the engine or, with pyxis, of srun; one an item.", one_line());
    visit("trainer", self.trainer,
          "fsdp-train's path inside of the image; absent: the one outside, whose folder is bound.",
          one_line());
  }
};

struct SlurmSpec {
  SlurmMode mode = SlurmMode::kPerRun;
  std::string job_name;
  std::string partition;
  std::string account;
  std::string qos;
  std::string reservation;
  std::string wckey;
  std::string licenses;
  std::string dependency;
  int64_t nodes = 1;
  int64_t gpus_per_node = 0;
  GpuRequest gpu_request = GpuRequest::kGres;
  std::string gpu_type;
  std::optional<double> gpu_memory_gib;
  int64_t cpus_per_task = 1;
  std::string mem;
  std::string time;
  std::string constraint;
  std::string nodelist;
  std::string exclude;
  bool exclusive = false;
  std::string output;
  std::string error;
  std::string mail_user;
  std::string mail_type;
  std::vector<std::string> modules;
  std::vector<std::string> prologue;
  std::vector<std::string> environment;
  std::string mpi = "none";
  std::string cpu_bind;
  std::string gpu_bind;
  std::vector<std::string> sbatch_options;
  std::vector<std::string> srun_options;
  std::filesystem::path template_file;
  int64_t max_parallel = 0;
  int64_t max_restarts = 3;
  int64_t signal_before_end_s = 120;
  SlurmContainerSpec container;

  bool operator==(const SlurmSpec&) const = default;

  static void visit_fields(auto& self, auto&& visit) {
    visit("mode", self.mode,
          "per_run: a job each, those of equal request as one array; allocation: one job for all "
          "runs, one after another unless max_parallel is above 1.");
    visit("job_name", self.job_name, "The job's name; absent: the experiment's.", one_line());
    visit("partition", self.partition, "Partition; absent: the cluster's default.", one_line());
    visit("account", self.account, "Account that is charged; absent: the user's default.",
          one_line());
    visit("qos", self.qos, "Quality of service; absent: the default.", one_line());
    visit("reservation", self.reservation, "Reservation that the job may use.", one_line());
    visit("wckey", self.wckey, "Workload key that the job is accounted under.", one_line());
    visit("licenses", self.licenses, "Licenses that the job takes, such as matlab:2.", one_line());
    visit("dependency", self.dependency, "Jobs that come before it, such as afterok:123.",
          one_line());
    visit("nodes", self.nodes, "Nodes, at most; a run asks for as many as its ranks need.",
          from_to(1, 100000));
    visit("gpus_per_node", self.gpus_per_node,
          "GPUs of each node, at most; a run asks for as many as its ranks need.",
          from_to(0, 1000));
    visit("gpu_request", self.gpu_request,
          "How GPUs are asked for: --gres=gpu:N or --gpus-per-node=N, which leaves --gres to "
          "sbatch_options.");
    visit("gpu_type", self.gpu_type, "The type in that request, such as a100; absent: any.",
          one_line());
    visit("gpu_memory_gib", self.gpu_memory_gib,
          "Memory of one of these GPUs, which profiles may require; absent: profiles take it to be "
          "enough.",
          above_to(0, kMostMemoryGib));
    visit("cpus_per_task", self.cpus_per_task, "CPU cores of each rank.", from_to(1, 1e5));
    visit("mem", self.mem, "Memory of each node; absent: the cluster's default.", slurm_memory());
    visit("time", self.time, "Time limit of the job; absent: the partition's.", slurm_time());
    visit("constraint", self.constraint, "Features that nodes must have.", one_line());
    visit("nodelist", self.nodelist, "Nodes that each job must have, such as n[1-2].", one_line());
    visit("exclude", self.exclude, "Nodes that are not to be used, such as n[3,7-9].", one_line());
    visit("exclusive", self.exclusive, "Share the nodes with no other job.");
    visit("output", self.output,
          "The job's own output, with sbatch's patterns (%x-%j.out); absent: %A_%a.out in the "
          "submission's folder. What ranks write is in the run's folder.",
          one_line());
    visit("error", self.error, "The job's error output; absent: with its output.", one_line());
    visit("mail_user", self.mail_user, "Who gets mail; absent: the user.", one_line());
    visit("mail_type", self.mail_type, "What mail is sent for, such as END,FAIL; absent: nothing.",
          one_line());
    visit("modules", self.modules,
          "Modules to load, after `module purge`; none: modules stay as they are.", one_line());
    visit("prologue", self.prologue,
          "Lines of bash to run before the ranks are started; the job ends at one that fails.",
          one_line());
    visit("environment", self.environment,
          "Variables for the ranks, over those of the shell; values are taken as they are.",
          assignment());
    visit("mpi", self.mpi,
          "srun's --mpi; ranks need none, whatever the cluster's default. Empty: that default.",
          one_line());
    visit("cpu_bind", self.cpu_bind, "srun's --cpu-bind, such as cores; absent: the cluster's.",
          one_line());
    visit("gpu_bind", self.gpu_bind, "srun's --gpu-bind, such as closest; absent: the cluster's.",
          one_line());
    visit("sbatch_options", self.sbatch_options,
          "Further options of sbatch, one an item; not those that other keys set.",
          sbatch_option());
    visit("srun_options", self.srun_options, "Further options of srun, one an item.", one_line());
    visit("template", self.template_file,
          "Template of the job's script; absent: slurm_templates/job.sh.", one_line());
    visit("max_parallel", self.max_parallel,
          "per_run: jobs of one array that run at a time, 0: no limit; allocation: runs side by "
          "side in the job, 0: one.",
          from_to(0, 1e6));
    visit("max_restarts", self.max_restarts,
          "How many times in a row a run is started again after preemption or a failed node; after "
          "its time limit, only if it keeps checkpoints. A new checkpoint resets the count.",
          from_to(0, 1e6));
    visit("signal_before_end_s", self.signal_before_end_s,
          "How long before its time limit a job asks runs that keep checkpoints to write one and "
          "stop: the time that writing may take.",
          from_to(1, 65535));
    visit("container", self.container, "A container that the trainer runs in.");
  }
};

}  // namespace fsdp
