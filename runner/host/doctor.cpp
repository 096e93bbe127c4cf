#include "runner/host/doctor.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "contract/record/nvml.h"
#include "runner/host/host_facts.h"
#include "runner/progress/run_progress.h"
#include "runner/report/terminal_text.h"

namespace fsdp {
namespace {

constexpr double kGib = 1 << 30;
constexpr double kSmallSharedMemory = 1 * kGib;
constexpr double kLittleDisk = 10 * kGib;
constexpr double kNoDisk = 0.1 * kGib;
constexpr unsigned long kFewFiles = 4096;
constexpr size_t kSubjectColumn = 9;
constexpr size_t kTextColumn = 24;

std::string gib_text(double bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f GiB", bytes / kGib);
  return text.data();
}

Finding ok(std::string subject, std::string found) {
  return {FindingLevel::kOk, std::move(subject), std::move(found)};
}

Finding warning(std::string subject, std::string found, std::string remedy) {
  return {FindingLevel::kWarning, std::move(subject), std::move(found), std::move(remedy)};
}

Finding missing(std::string subject, std::string found, std::string remedy) {
  return {FindingLevel::kMissing, std::move(subject), std::move(found), std::move(remedy)};
}

struct Gpus {
  std::vector<Gpu> gpus;
  std::string problem;  // of a driver that is there and fails
};

Gpus gpus_of_host() {
  try {
    const std::unique_ptr<Nvml> nvml = Nvml::open();
    return {nvml ? nvml->gpus() : std::vector<Gpu>(), ""};
  } catch (const std::runtime_error& error) {
    return {{}, error.what()};
  }
}

void examine_gpus(std::vector<Finding>& findings, const Gpus& found) {
  const std::string driver = nvidia_driver_version();
  if (driver.empty()) {
    findings.push_back(ok("driver", "no NVIDIA driver: runs use the CPU"));
  } else {
    findings.push_back(ok("driver", "NVIDIA " + driver));
  }
  if (!found.problem.empty()) {
    findings.push_back(warning("GPUs", found.problem,
                               "The driver is there and does not answer: see what nvidia-smi says; "
                               "after an update of the driver the host wants a restart."));
  }
  for (const Gpu& gpu : found.gpus) {
    findings.push_back(ok("GPU " + std::to_string(gpu.index),
                          gpu.name + ", " + gib_text(static_cast<double>(gpu.memory_bytes))));
  }
}

void examine_programs(std::vector<Finding>& findings, const DoctorPlaces& places, bool has_gpus) {
  if (!is_executable(places.trainer)) {
    findings.push_back(missing("fsdp-train", "not at " + places.trainer.string(),
                               "Build it: call ./fsdp-run in the repository, which does all that "
                               "is needed, or cmake --build with target fsdp-train."));
  } else {
    const bool has_cuda = file_contains(places.trainer, "libtorch_cuda.so");
    findings.push_back(
        ok("fsdp-train", places.trainer.string() + (has_cuda ? ", for CUDA" : ", for the CPU")));
    if (has_gpus && !has_cuda) {
      findings.push_back(warning("CUDA variant", "not built, but there are GPUs",
                                 "Call ./fsdp-run in the repository: it builds the CUDA variant "
                                 "where there is a driver; or export FSDP_VARIANT=cuda."));
    }
  }
  const std::string torch = wheel_version(places.repository, "torch");
  findings.push_back(
      torch.empty() ? warning("torch wheel", "not in " + (places.repository / ".venv").string(),
                              "./fsdp-run installs it; another libtorch is found through "
                              "CMAKE_PREFIX_PATH.")
                    : ok("torch wheel", torch));
  const std::string nccl = wheel_version(places.repository, "nvidia_nccl_cu13");
  if (!nccl.empty()) {
    findings.push_back(ok("NCCL", nccl));
  } else if (has_gpus) {
    findings.push_back(warning("NCCL", "not in .venv",
                               "FSDP_VARIANT=cuda ./fsdp-run installs it with the CUDA wheels."));
  } else {
    findings.push_back(ok("NCCL", "not in .venv, and not needed without GPUs"));
  }
  for (const auto& [program, package] :
       std::array{std::pair("g++", "g++"), std::pair("cmake", "cmake"),
                  std::pair("ninja", "ninja-build"), std::pair("python3", "python3-venv")}) {
    const std::string version = version_line(program);
    findings.push_back(
        version.empty()
            ? warning(program, "not in PATH",
                      std::string("Only building needs it: apt-get install ") + package + ".")
            : ok(program, version));
  }
}

void examine_space(std::vector<Finding>& findings, const DoctorPlaces& places) {
  if (const auto shared = space_of("/dev/shm"); !shared) {
    findings.push_back(
        warning("/dev/shm", "not there", "NCCL's ranks share memory there: mount a tmpfs on it."));
  } else if (shared->size_bytes < kSmallSharedMemory) {
    findings.push_back(warning("/dev/shm", gib_text(shared->size_bytes),
                               "NCCL's ranks share memory there, and want 1 GiB or more: in a "
                               "container, docker run --shm-size=8g; else mount -o "
                               "remount,size=8G /dev/shm."));
  } else {
    findings.push_back(ok("/dev/shm", gib_text(shared->size_bytes)));
  }
  const std::string where = places.results.string();
  const auto disk = space_of(existing_part(places.results));
  if (!disk || !disk->is_writable || disk->free_bytes < kNoDisk) {
    findings.push_back(missing("results", where + ": no place to write",
                               "Choose another folder with --results, or make it writable and "
                               "free space on its file system."));
  } else if (disk->free_bytes < kLittleDisk) {
    findings.push_back(warning("results", where + ": " + gib_text(disk->free_bytes) + " free",
                               "Logs and figures take little; checkpoints of a 7B model take 13 "
                               "to 80 GiB each."));
  } else {
    findings.push_back(ok("results", where + ": " + gib_text(disk->free_bytes) + " free"));
  }
}

void examine_limits(std::vector<Finding>& findings, bool has_gpus) {
  const HostLimits limits = host_limits();
  const auto text = [](std::optional<unsigned long> limit) {
    return limit ? std::to_string(*limit) : std::string("unlimited");
  };
  findings.push_back(limits.open_files && *limits.open_files < kFewFiles
                         ? warning("open files", text(limits.open_files),
                                   "Many ranks and checkpoint files want more: ulimit -n 65536.")
                         : ok("open files", text(limits.open_files)));
  const std::string locked = limits.locked_memory_bytes
                                 ? memory_text(static_cast<int64_t>(*limits.locked_memory_bytes))
                                 : "unlimited";
  findings.push_back(has_gpus && limits.locked_memory_bytes
                         ? warning("locked memory", locked,
                                   "NCCL over InfiniBand and offload to pinned memory want it "
                                   "unlimited: ulimit -l unlimited, or limits.conf.")
                         : ok("locked memory", locked));
}

void examine_cpu(std::vector<Finding>& findings) {
  const std::string governor = cpu_governor();
  if (governor.empty()) {
    findings.push_back(ok("CPU governor", "not shown by this host, as in virtual machines"));
  } else if (governor != "performance") {
    findings.push_back(warning("CPU governor", governor,
                               "CPU timings vary with it: cpupower frequency-set -g performance."));
  } else {
    findings.push_back(ok("CPU governor", governor));
  }
  const std::string source = clock_source();
  if (source == "hpet" || source == "acpi_pm" || source == "jiffies") {
    findings.push_back(warning("clock", source,
                               "Reading it is slow, which shows in short steps; the kernel fell "
                               "back from tsc: see dmesg."));
  } else {
    findings.push_back(ok("clock", source.empty() ? "not shown by this host" : source));
  }
}

void examine_slurm(std::vector<Finding>& findings) {
  const std::string sinfo = version_line("sinfo");
  const std::string sbatch = version_line("sbatch");
  if (sinfo.empty() && sbatch.empty()) {
    findings.push_back(ok("Slurm", "not here: runs start on this host"));
  } else if (sinfo.empty() || sbatch.empty()) {
    findings.push_back(
        warning("Slurm", sinfo.empty() ? sbatch + ", without sinfo" : sinfo + ", without sbatch",
                "Load the module that has all of Slurm's commands."));
  } else {
    findings.push_back(ok("Slurm", sbatch));
  }
}

std::string_view name_of_level(FindingLevel level) {
  switch (level) {
    case FindingLevel::kOk:
      return "ok";
    case FindingLevel::kWarning:
      return "warning";
    case FindingLevel::kMissing:
      return "missing";
  }
  return "";
}

// `text` below each other from column `start` on, after what stands before it in the first line.
std::string wrapped(const std::string& before, const std::string& text, size_t start,
                    size_t width) {
  std::string all, line = display_left(before, start);
  bool is_empty = true;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!is_empty && display_width(line) + 1 + display_width(word) > width) {
      all += line + '\n';
      line = std::string(start, ' ');
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    is_empty = false;
  }
  return all + line + '\n';
}

}  // namespace

std::vector<Finding> examine(const DoctorPlaces& places) {
  const Gpus found = gpus_of_host();
  const bool has_gpus = !found.gpus.empty();
  std::vector<Finding> findings;
  examine_programs(findings, places, has_gpus);
  examine_gpus(findings, found);
  examine_space(findings, places);
  examine_limits(findings, has_gpus);
  examine_cpu(findings);
  examine_slurm(findings);
  return findings;
}

std::string findings_text(const std::vector<Finding>& findings, size_t width) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string before =
        display_left(name_of_level(finding.level), kSubjectColumn) + finding.subject;
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
