// Examines this host for everything that runs need. Each lack has a remedy.
#include "runner/host/doctor.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <fstream>
#include <system_error>

#include "base/files/input_file.h"
#include "base/system/cgroups.h"
#include "base/system/program.h"
#include "base/text/bytes_text.h"
#include "base/text/foreign_json.h"
#include "base/text/json_fields.h"
#include "runner/progress/run_progress.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

using std::filesystem::path;
using enum FindingLevel;

constexpr double kGib = 1 << 30;
constexpr double kSmallSharedMemory = 1 * kGib;
constexpr double kLittleDisk = 10 * kGib;
constexpr double kNoDisk = 0.1 * kGib;
constexpr unsigned long kFewFiles = 4096;
constexpr size_t kSubjectColumn = 9;
constexpr size_t kTextColumn = 24;

// --- facts; absent ones are empty ---

bool is_executable(const path& file) { return access(file.c_str(), X_OK) == 0; }

std::string first_line(const path& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

// nullopt: unlimited or unknown.
std::optional<unsigned long> soft_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return std::nullopt;
  if (limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// Returns the first line of `PROGRAM --version`.
std::string version_line(const std::string& program) {
  try {
    const std::string text =
        run_program({program, "--version"}, own_variables(), std::chrono::minutes(1)).output;
    return text.substr(0, text.find('\n'));
  } catch (const std::system_error&) {  // it is not there
    return "";
  }
}

std::string nvidia_driver_version() {
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..."
  const std::string line = first_line("/proc/driver/nvidia/version");
  const size_t start = line.find("  ");
  if (start == std::string::npos) return line;
  const size_t end = line.find(' ', start + 2);
  return line.substr(start + 2, end == std::string::npos ? end : end - start - 2);
}

// --- findings ---

std::string sentence(std::string clause) {
  clause[0] = static_cast<char>(std::toupper(clause[0]));
  return clause + '.';
}

using Findings = std::vector<Finding>;

// Adds kOk if all is well, else a warning with the remedy.
void add_check(Findings& findings, bool is_well, std::string subject, std::string found,
               std::string remedy) {
  findings.push_back({is_well ? kOk : kWarning, std::move(subject), std::move(found),
                      is_well ? "" : std::move(remedy)});
}

void examine_trainer(Findings& findings, const path& trainer,
                     const std::optional<TrainerBuild>& build, bool has_gpus) {
  if (!is_executable(trainer)) {
    return findings.push_back(
        {kMissing, "fsdp-train", "not at " + trainer.string(),
         "Build it: call ./fsdp-run in the repository, which does all that is "
         "needed, or cmake --build with target fsdp-train."});
  }
  if (!build) {
    return findings.push_back(
        {kMissing, "fsdp-train", trainer.string() + " does not start here",
         "Call it with --version to see why. If its PyTorch comes from a module or an environment, "
         "load that first. Otherwise call ./fsdp-run in the repository."});
  }
  const bool has_cuda = !build->cuda_version.empty();
  findings.push_back(
      {kOk, "fsdp-train", trainer.string() + (has_cuda ? ", for CUDA" : ", for the CPU")});
  findings.push_back({kOk, "PyTorch", build->torch_version});
  if (has_cuda) {
    const std::string kernels =
        build->architectures.empty() ? "" : ", kernels for " + build->architectures;
    findings.push_back(
        {kOk, "CUDA", build->cuda_version + ", NCCL " + build->nccl_version + kernels});
  } else if (has_gpus) {
    findings.push_back({kWarning, "CUDA variant", "not built, but there are GPUs",
                        "Call ./fsdp-run in the repository: it builds the CUDA variant if it finds "
                        "a driver, or if FSDP_VARIANT=cuda is exported."});
  }
}

void examine_gpus(Findings& findings, const NvidiaHost& host,
                  const std::optional<TrainerBuild>& build) {
  const auto& [driver, gpus, problem] = host;
  const std::string serves =
      driver.cuda_version.empty() ? "" : ", for CUDA up to " + driver.cuda_version;
  findings.push_back({kOk, "driver",
                      driver.version.empty() ? "no NVIDIA driver: runs use the CPU"
                                             : "NVIDIA " + driver.version + serves});
  if (!problem.empty()) {
    findings.push_back({kWarning, "GPUs", problem,
                        "The driver is installed, but does not answer: see what nvidia-smi says. "
                        "After an update of the driver, restart the host."});
  }
  for (const Gpu& gpu : gpus) {
    const std::string capability =
        gpu.capability ? ", compute capability " + text_of(*gpu.capability) : "";
    findings.push_back({kOk, fmt::format("GPU {}", gpu.index),
                        gpu.name + ", " + bytes_text(gpu.memory_bytes) + capability});
  }
  if (!build) return;
  for (const Misfit& misfit : misfits(*build, driver, gpus)) {
    findings.push_back({kMissing, "GPUs", misfit.problem, sentence(misfit.remedy)});
  }
}

void examine_programs(Findings& findings) {
  for (const auto& [program, package] :
       std::array{std::pair("g++", "g++"), std::pair("cmake", "cmake"),
                  std::pair("ninja", "ninja-build"), std::pair("python3", "python3-venv")}) {
    const std::string version = version_line(program);
    add_check(findings, !version.empty(), program, version.empty() ? "not in PATH" : version,
              fmt::format("Only building needs it: apt-get install {}.", package));
  }
}

void examine_space(Findings& findings, const path& results) {
  std::error_code unknown;
  const auto shared = space_of("/dev/shm");
  if (!shared || !std::filesystem::exists("/dev/shm", unknown)) {
    findings.push_back({kWarning, "/dev/shm", "not there",
                        "Ranks of NCCL share memory there: mount a tmpfs on it."});
  } else {
    add_check(findings, shared->size_bytes >= kSmallSharedMemory, "/dev/shm",
              bytes_text(static_cast<int64_t>(shared->size_bytes)),
              "Ranks of NCCL share memory there, and need 1 GiB or more. In a container: docker "
              "run --shm-size=8g. Elsewhere: mount -o remount,size=8G /dev/shm.");
  }
  const auto disk = space_of(results);
  if (!disk || !disk->is_writable || disk->free_bytes < kNoDisk) {
    return findings.push_back(
        {kMissing, "results", results.string() + ": cannot be written, or is full",
         "Choose another folder with --results, or make it writable and free space "
         "on its file system."});
  }
  add_check(findings, disk->free_bytes >= kLittleDisk, "results",
            results.string() + ": " + bytes_text(static_cast<int64_t>(disk->free_bytes)) + " free",
            "Logs and figures take little; checkpoints of a 7B model take 13 to 80 GiB each.");
}

void examine_limits(Findings& findings, bool has_gpus) {
  const auto files = soft_limit(RLIMIT_NOFILE);
  const auto locked_bytes = soft_limit(RLIMIT_MEMLOCK);
  add_check(findings, !files || *files >= kFewFiles, "open files",
            files ? std::to_string(*files) : "unlimited",
            "Many ranks and checkpoint files need more: ulimit -n 65536.");
  add_check(findings, !has_gpus || !locked_bytes, "locked memory",
            locked_bytes ? bytes_text(static_cast<int64_t>(*locked_bytes)) : "unlimited",
            "NCCL over InfiniBand and offload to pinned memory need it unlimited: ulimit -l "
            "unlimited, or limits.conf.");
}

void examine_memory(Findings& findings) {
  const std::string available = bytes_text(memory_available_bytes());
  findings.push_back({kOk, "memory",
                      cgroup_memory_limit_bytes()
                          ? available + ", the limit of this job or container (cgroup)"
                          : available});
}

void examine_cpu(Findings& findings) {
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  add_check(findings, governor.empty() || governor == "performance", "CPU governor",
            governor.empty() ? "not shown by this host, as in virtual machines" : governor,
            "CPU timings vary with it: cpupower frequency-set -g performance.");
  const std::string source =
      first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  add_check(findings, source != "hpet" && source != "acpi_pm" && source != "jiffies", "clock",
            source.empty() ? "not shown by this host" : source,
            "The kernel does not use the clock tsc (see dmesg). Reading this clock is slow, so "
            "short steps take longer.");
}

void examine_slurm(Findings& findings) {
  const std::string sinfo = version_line("sinfo");
  const std::string sbatch = version_line("sbatch");
  if (sinfo.empty() && sbatch.empty()) {
    return findings.push_back({kOk, "Slurm", "not here: runs start on this host"});
  }
  const std::string incomplete =
      sinfo.empty() ? sbatch + ", without sinfo" : sinfo + ", without sbatch";
  const bool is_whole = !sinfo.empty() && !sbatch.empty();
  add_check(findings, is_whole, "Slurm", is_whole ? sbatch : incomplete,
            "Load the module that has all of Slurm's commands.");
}

}  // namespace

std::optional<TrainerBuild> build_of(const path& trainer) {
  try {
    TrainerBuild build;
    JsonFields(trainer).read("", parse_foreign_json(version_line(trainer)), build);
    return build;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

NvidiaHost nvidia_of_host() {
  try {
    const std::unique_ptr<Nvml> nvml = Nvml::open();
    return nvml ? NvidiaHost{nvml->driver(), nvml->gpus(), ""} : NvidiaHost{};
  } catch (const std::runtime_error& error) {
    return {NvidiaDriver{.version = nvidia_driver_version(), .cuda_version = ""}, {}, error.what()};
  }
}

std::vector<Misfit> misfits(const TrainerBuild& build, const NvidiaDriver& driver,
                            const std::vector<Gpu>& gpus) {
  std::vector<Misfit> found;
  const auto add = [&](const std::optional<Misfit>& misfit) {
    if (misfit && std::ranges::find(found, *misfit) == found.end()) found.push_back(*misfit);
  };
  if (build.cuda_version.empty()) return found;
  add(driver_misfit(build, driver));
  for (const Gpu& gpu : gpus) {
    if (gpu.capability) add(gpu_misfit(build, gpu.name, *gpu.capability));
  }
  return found;
}

std::optional<Space> space_of(const path& folder) {
  const path place = existing_part(folder);
  struct statvfs status {};
  if (statvfs(place.c_str(), &status) != 0) return std::nullopt;
  const auto block = static_cast<double>(status.f_frsize);
  return Space{.size_bytes = block * static_cast<double>(status.f_blocks),
               .free_bytes = block * static_cast<double>(status.f_bavail),
               .is_writable = access(place.c_str(), W_OK) == 0};
}

std::vector<Finding> examine(const path& trainer, const path& results) {
  const NvidiaHost host = nvidia_of_host();
  const bool has_gpus = !host.gpus.empty();
  const std::optional<TrainerBuild> build = build_of(trainer);
  Findings findings;
  examine_trainer(findings, trainer, build, has_gpus);
  examine_programs(findings);
  examine_gpus(findings, host, build);
  examine_space(findings, results);
  examine_limits(findings, has_gpus);
  examine_memory(findings);
  examine_cpu(findings);
  examine_slurm(findings);
  return findings;
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
