// Asks NVIDIA's driver about GPUs, by a library that is loaded if it is there.
#include "contract/devices/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace fsdp {
namespace {

// The parts of nvml.h that are used. Its ABI is stable: if a layout changes, the function gets a
// new name.
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlUtilization {
  unsigned int gpu, memory;
};
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlInsufficientSize = 7;
constexpr int kNvmlDriverNotLoaded = 9;
constexpr int kNvmlTemperatureGpu = 0;
constexpr int kNvmlClockSm = 1;
constexpr int kNvmlClockMemory = 2;

}  // namespace

// --- calls; each argument has the type of the function's parameter ---

template <typename Function>
Function* Nvml::find(const char* name) const {
  return reinterpret_cast<Function*>(dlsym(library_, name));
}

template <typename... Arguments>
int Nvml::result_of(const char* name, Arguments... arguments) const {
  const auto function = find<int(Arguments...)>(name);
  if (function != nullptr) return function(arguments...);
  throw std::runtime_error(std::string("the NVIDIA driver is too old: libnvidia-ml.so.1 has no ") +
                           name);
}

template <typename... Arguments>
void Nvml::call(const char* name, Arguments... arguments) const {
  check(result_of(name, arguments...), name);
}

template <typename... Arguments>
bool Nvml::try_call(const char* name, Arguments... arguments) const {
  const auto function = find<int(Arguments...)>(name);
  return function != nullptr && function(arguments...) == kNvmlSuccess;
}

template <typename... Arguments>
std::optional<unsigned int> Nvml::figure(const char* name, Arguments... arguments) const {
  unsigned int figure = 0;
  return try_call(name, arguments..., &figure) ? std::optional(figure) : std::nullopt;
}

void Nvml::check(int result, const char* name) const {
  if (result == kNvmlSuccess) return;
  const auto error_string = find<const char*(int)>("nvmlErrorString");
  throw std::runtime_error(std::string("NVIDIA driver: ") + name + ": " +
                           (error_string ? error_string(result) : std::to_string(result)));
}

// --- questions to the driver ---

std::unique_ptr<Nvml> Nvml::open() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml(library));
  const int result = nvml->result_of("nvmlInit_v2");
  if (result == kNvmlDriverNotLoaded) return nullptr;
  nvml->check(result, "nvmlInit_v2");
  nvml->initialised_ = true;
  return nvml;
}

Nvml::~Nvml() {
  if (initialised_) try_call("nvmlShutdown");
  dlclose(library_);
}

std::vector<Gpu> Nvml::gpus() const {
  unsigned int count = 0;
  call("nvmlDeviceGetCount_v2", &count);
  std::vector<Gpu> gpus;
  for (int i = 0; i < static_cast<int>(count); ++i) {
    const Device device = device_at(i);
    std::array<char, 96> name{}, uuid{};
    NvmlMemory memory{};
    call("nvmlDeviceGetName", device, name.data(), unsigned(name.size()));
    call("nvmlDeviceGetUUID", device, uuid.data(), unsigned(uuid.size()));
    call("nvmlDeviceGetMemoryInfo", device, &memory);
    gpus.push_back({.index = i,
                    .name = name.data(),
                    .uuid = uuid.data(),
                    .memory_bytes = int64_t(memory.total)});
    ComputeCapability capability;
    if (try_call("nvmlDeviceGetCudaComputeCapability", device, &capability.major,
                 &capability.minor)) {
      gpus.back().capability = capability;
    }
  }
  return gpus;
}

std::vector<NvmlProcessInfo> Nvml::processes_on(int index) const {
  const Device device = device_at(index);
  std::vector<NvmlProcessInfo> processes(16);
  for (;;) {
    auto count = unsigned(processes.size());
    const int result = list_processes(device, &count, processes.data());
    if (result == kNvmlInsufficientSize) {
      processes.resize(2 * std::max<size_t>(count, processes.size()));
      continue;
    }
    check(result, "nvmlDeviceGetComputeRunningProcesses");
    processes.resize(count);
    return processes;
  }
}

std::string Nvml::process_name(unsigned int process_id) const {
  std::array<char, 256> name{};
  const int result =
      result_of("nvmlSystemGetProcessName", process_id, name.data(), unsigned(name.size()));
  return result == kNvmlSuccess ? name.data() : "";
}

DeviceSample Nvml::sample(const Gpu& gpu) const {
  DeviceSample sample;
  sample.device = "gpu:" + std::to_string(gpu.index);
  sample.device_name = gpu.name;
  Device device = nullptr;
  if (!try_call("nvmlDeviceGetHandleByIndex_v2", unsigned(gpu.index), &device)) return sample;
  NvmlUtilization utilization{};
  if (try_call("nvmlDeviceGetUtilizationRates", device, &utilization)) {
    sample.utilization_percent = utilization.gpu;
  }
  NvmlMemory memory{};
  if (try_call("nvmlDeviceGetMemoryInfo", device, &memory)) {
    sample.memory_used_bytes = int64_t(memory.used);
    sample.memory_total_bytes = int64_t(memory.total);
  }
  if (const auto milliwatts = figure("nvmlDeviceGetPowerUsage", device)) {
    sample.power_watts = *milliwatts / 1000.0;
  }
  sample.temperature_celsius = figure("nvmlDeviceGetTemperature", device, kNvmlTemperatureGpu);
  sample.sm_clock_mhz = figure("nvmlDeviceGetClockInfo", device, kNvmlClockSm);
  sample.memory_clock_mhz = figure("nvmlDeviceGetClockInfo", device, kNvmlClockMemory);
  return sample;
}

NvidiaDriver Nvml::driver() const {
  NvidiaDriver driver;
  std::array<char, 96> version{};
  if (try_call("nvmlSystemGetDriverVersion", version.data(), unsigned(version.size()))) {
    driver.version = version.data();
  }
  int cuda_version = 0;
  if (try_call("nvmlSystemGetCudaDriverVersion_v2", &cuda_version)) {
    driver.cuda_version = cuda_version_text(cuda_version);
  }
  return driver;
}

std::optional<GpuFacts> Nvml::facts_of(const std::string& uuid) const {
  Device part = nullptr;
  for (const char* kind : {"GPU-", "MIG-"}) {
    const std::string full_uuid = kind + uuid;
    if (try_call("nvmlDeviceGetHandleByUUID", full_uuid.c_str(), &part)) break;
    part = nullptr;
  }
  if (part == nullptr) return std::nullopt;
  Device gpu = nullptr;
  if (!try_call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", part, &gpu)) {
    gpu = part;  // it is not a MIG slice
  }
  GpuFacts facts;
  if (const auto index = figure("nvmlDeviceGetIndex", gpu)) {
    facts.device = "gpu:" + std::to_string(*index);
  }
  if (const auto milliwatts = figure("nvmlDeviceGetEnforcedPowerLimit", gpu)) {
    facts.power_limit_watts = *milliwatts / 1000.0;
  }
  facts.sm_clock_mhz_max = figure("nvmlDeviceGetMaxClockInfo", gpu, kNvmlClockSm);
  unsigned int count = 0;  // without a list to fill, the library returns the length that is needed
  const int result = list_processes(part, &count, nullptr);
  if (result == kNvmlSuccess || result == kNvmlInsufficientSize) facts.process_count = count;
  return facts;
}

int Nvml::list_processes(Device device, unsigned int* count, NvmlProcessInfo* processes) const {
  constexpr const char* kNewer = "nvmlDeviceGetComputeRunningProcesses_v3";
  constexpr const char* kOlder = "nvmlDeviceGetComputeRunningProcesses_v2";
  const bool has_older_only = !find<int()>(kNewer) && find<int()>(kOlder);
  return result_of(has_older_only ? kOlder : kNewer, device, count, processes);
}

Nvml::Device Nvml::device_at(int index) const {
  Device device = nullptr;
  call("nvmlDeviceGetHandleByIndex_v2", unsigned(index), &device);
  return device;
}

}  // namespace fsdp
