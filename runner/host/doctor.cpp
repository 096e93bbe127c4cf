#include "runner/host/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "contract/record/cgroups.h"
#include "runner/host/device_fit.h"
#include "runner/host/host_facts.h"
#include "runner/progress/run_progress.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr double kGib = 1 << 30;
constexpr double kSmallSharedMemory = 1 * kGib;
constexpr double kLittleDisk = 10 * kGib;
constexpr double kNoDisk = 0.1 * kGib;
constexpr unsigned long kFewFiles = 4096;
constexpr size_t kSubjectColumn = 9;
constexpr size_t kTextColumn = 24;

std::string gib_text(double bytes) { return fmt::format("{:.1f} GiB", bytes / kGib); }

std::string sentence(std::string clause) {
  clause[0] = static_cast<char>(std::toupper(clause[0]));
  return clause + '.';
}

class Findings {
 public:
  void ok(std::string subject, std::string found) {
    all_.push_back({FindingLevel::kOk, std::move(subject), std::move(found)});
  }
  void warn(std::string subject, std::string found, std::string remedy) {
    all_.push_back(
        {FindingLevel::kWarning, std::move(subject), std::move(found), std::move(remedy)});
  }
  void miss(std::string subject, std::string found, std::string remedy) {
    all_.push_back(
        {FindingLevel::kMissing, std::move(subject), std::move(found), std::move(remedy)});
  }
  // Adds kOk if all is well, else a warning with the remedy.
  void check(bool is_well, std::string subject, std::string found, std::string remedy) {
    is_well ? ok(std::move(subject), std::move(found))
            : warn(std::move(subject), std::move(found), std::move(remedy));
  }
  std::vector<Finding> take() { return std::move(all_); }

 private:
  std::vector<Finding> all_;
};

void examine_trainer(Findings& findings, const path& trainer,
                     const std::optional<TrainerBuild>& build, bool has_gpus) {
  if (!is_executable(trainer)) {
    return findings.miss("fsdp-train", "not at " + trainer.string(),
                         "Build it: call ./fsdp-run in the repository, which does all that is "
                         "needed, or cmake --build with target fsdp-train.");
  }
  if (!build) {
    return findings.miss("fsdp-train", trainer.string() + " does not start here",
                         "Call it with --version to see why. Where its PyTorch comes from a module "
                         "or an environment, load that first; else call ./fsdp-run in the "
                         "repository.");
  }
  const bool has_cuda = !build->cuda_version.empty();
  findings.ok("fsdp-train", trainer.string() + (has_cuda ? ", for CUDA" : ", for the CPU"));
  findings.ok("PyTorch", build->torch_version);
  if (has_cuda) {
    const std::string kernels =
        build->architectures.empty() ? "" : ", kernels for " + build->architectures;
    findings.ok("CUDA", build->cuda_version + ", NCCL " + build->nccl_version + kernels);
  } else if (has_gpus) {
    findings.warn("CUDA variant", "not built, but there are GPUs",
                  "Call ./fsdp-run in the repository: it builds the CUDA variant where there is a "
                  "driver; or export FSDP_VARIANT=cuda.");
  }
}

void examine_gpus(Findings& findings, const NvidiaHost& host,
                  const std::optional<TrainerBuild>& build) {
  const auto& [driver, gpus, problem] = host;
  const std::string serves =
      driver.cuda_version.empty() ? "" : ", for CUDA up to " + driver.cuda_version;
  findings.ok("driver", driver.version.empty() ? "no NVIDIA driver: runs use the CPU"
                                               : "NVIDIA " + driver.version + serves);
  if (!problem.empty()) {
    findings.warn("GPUs", problem,
                  "The driver is there and does not answer: see what nvidia-smi says; after an "
                  "update of the driver the host wants a restart.");
  }
  for (const Gpu& gpu : gpus) {
    const std::string capability =
        gpu.capability ? ", compute capability " + text_of(*gpu.capability) : "";
    findings.ok(fmt::format("GPU {}", gpu.index),
                gpu.name + ", " + gib_text(static_cast<double>(gpu.memory_bytes)) + capability);
  }
  if (!build) return;
  for (const Misfit& misfit : misfits(*build, driver, gpus)) {
    findings.miss("GPUs", misfit.problem, sentence(misfit.remedy));
  }
}

void examine_programs(Findings& findings) {
  for (const auto& [program, package] :
       std::array{std::pair("g++", "g++"), std::pair("cmake", "cmake"),
                  std::pair("ninja", "ninja-build"), std::pair("python3", "python3-venv")}) {
    const std::string version = version_line(program);
    findings.check(!version.empty(), program, version.empty() ? "not in PATH" : version,
                   fmt::format("Only building needs it: apt-get install {}.", package));
  }
}

void examine_space(Findings& findings, const path& results) {
  if (const auto shared = space_of("/dev/shm"); !shared) {
    findings.warn("/dev/shm", "not there", "NCCL's ranks share memory there: mount a tmpfs on it.");
  } else {
    findings.check(
        shared->size_bytes >= kSmallSharedMemory, "/dev/shm", gib_text(shared->size_bytes),
        "NCCL's ranks share memory there, and want 1 GiB or more: in a container, docker "
        "run --shm-size=8g; else mount -o remount,size=8G /dev/shm.");
  }
  const auto disk = space_of(existing_part(results));
  if (!disk || !disk->is_writable || disk->free_bytes < kNoDisk) {
    return findings.miss("results", results.string() + ": no place to write",
                         "Choose another folder with --results, or make it writable and free space "
                         "on its file system.");
  }
  findings.check(disk->free_bytes >= kLittleDisk, "results",
                 results.string() + ": " + gib_text(disk->free_bytes) + " free",
                 "Logs and figures take little; checkpoints of a 7B model take 13 to 80 GiB each.");
}

void examine_limits(Findings& findings, bool has_gpus) {
  const auto [files, locked_bytes] = host_limits();
  findings.check(!files || *files >= kFewFiles, "open files",
                 files ? std::to_string(*files) : "unlimited",
                 "Many ranks and checkpoint files want more: ulimit -n 65536.");
  findings.check(!has_gpus || !locked_bytes, "locked memory",
                 locked_bytes ? memory_text(static_cast<int64_t>(*locked_bytes)) : "unlimited",
                 "NCCL over InfiniBand and offload to pinned memory want it unlimited: ulimit -l "
                 "unlimited, or limits.conf.");
}

void examine_memory(Findings& findings) {
  const std::string available = gib_text(static_cast<double>(memory_available_bytes()));
  findings.ok("memory", cgroup_memory_limit_bytes()
                            ? available + ", the limit of this job or container (cgroup)"
                            : available);
}

void examine_cpu(Findings& findings) {
  const std::string governor = cpu_governor();
  findings.check(governor.empty() || governor == "performance", "CPU governor",
                 governor.empty() ? "not shown by this host, as in virtual machines" : governor,
                 "CPU timings vary with it: cpupower frequency-set -g performance.");
  const std::string source = clock_source();
  findings.check(source != "hpet" && source != "acpi_pm" && source != "jiffies", "clock",
                 source.empty() ? "not shown by this host" : source,
                 "Reading it is slow, which shows in short steps; the kernel fell back from tsc: "
                 "see dmesg.");
}

void examine_slurm(Findings& findings) {
  const std::string sinfo = version_line("sinfo");
  const std::string sbatch = version_line("sbatch");
  if (sinfo.empty() && sbatch.empty()) {
    return findings.ok("Slurm", "not here: runs start on this host");
  }
  const std::string incomplete =
      sinfo.empty() ? sbatch + ", without sinfo" : sinfo + ", without sbatch";
  const bool is_whole = !sinfo.empty() && !sbatch.empty();
  findings.check(is_whole, "Slurm", is_whole ? sbatch : incomplete,
                 "Load the module that has all of Slurm's commands.");
}

}  // namespace

std::vector<Finding> examine(const DoctorPlaces& places) {
  const NvidiaHost host = nvidia_of_host();
  const bool has_gpus = !host.gpus.empty();
  const std::optional<TrainerBuild> build = build_of(places.trainer);
  Findings findings;
  examine_trainer(findings, places.trainer, build, has_gpus);
  examine_programs(findings);
  examine_gpus(findings, host, build);
  examine_space(findings, places.results);
  examine_limits(findings, has_gpus);
  examine_memory(findings);
  examine_cpu(findings);
  examine_slurm(findings);
  return findings.take();
}

std::string findings_text(const std::vector<Finding>& findings, size_t width) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string before =
        display_left(name_of(finding.level), kSubjectColumn) + finding.subject;
    text += wrapped(before + ' ', finding.found, kTextColumn, width);
    if (!finding.remedy.empty()) text += wrapped("", finding.remedy, kTextColumn, width);
  }
  return text + (lab_can_run(findings) ? "\nThe lab can run here: ./fsdp-run experiments/lab.yaml\n"
                                       : "\nThe lab cannot run here yet: see what is missing.\n");
}

bool lab_can_run(const std::vector<Finding>& findings) {
  return std::ranges::none_of(
      findings, [](const Finding& finding) { return finding.level == FindingLevel::kMissing; });
}

}  // namespace fsdp
