#include "contract/devices/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace fsdp {
namespace {

// The parts of nvml.h that are used. Its ABI is stable, and names carry the version of a layout.
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

std::unique_ptr<Nvml> Nvml::open() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml(library));
  const int result = nvml->function<int()>("nvmlInit_v2")();
  if (result == kNvmlDriverNotLoaded) return nullptr;
  nvml->check(result, "nvmlInit_v2");
  nvml->initialised_ = true;
  return nvml;
}

Nvml::~Nvml() {
  if (initialised_) function<int()>("nvmlShutdown")();
  dlclose(library_);
}

std::vector<Gpu> Nvml::gpus() const {
  unsigned int count = 0;
  call<int(unsigned int*)>("nvmlDeviceGetCount_v2", &count);
  std::vector<Gpu> gpus;
  for (unsigned int i = 0; i < count; ++i) {
    const Device device = device_at(i);
    std::array<char, 96> name{}, uuid{};
    NvmlMemory memory{};
    call<int(Device, char*, unsigned int)>("nvmlDeviceGetName", device, name.data(),
                                           unsigned(name.size()));
    call<int(Device, char*, unsigned int)>("nvmlDeviceGetUUID", device, uuid.data(),
                                           unsigned(uuid.size()));
    call<int(Device, NvmlMemory*)>("nvmlDeviceGetMemoryInfo", device, &memory);
    gpus.push_back({.index = int(i),
                    .name = name.data(),
                    .uuid = uuid.data(),
                    .memory_bytes = int64_t(memory.total)});
    ComputeCapability capability;
    if (try_call<int(Device, int*, int*)>("nvmlDeviceGetCudaComputeCapability", device,
                                          &capability.major, &capability.minor)) {
      gpus.back().capability = capability;
    }
  }
  return gpus;
}

std::vector<NvmlProcessInfo> Nvml::processes_on(int index) const {
  const Device device = device_at(unsigned(index));
  const auto list = function<int(Device, unsigned int*, NvmlProcessInfo*)>(
      "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2");
  std::vector<NvmlProcessInfo> processes(16);
  for (;;) {
    auto count = unsigned(processes.size());
    const int result = list(device, &count, processes.data());
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
  const int result = function<int(unsigned int, char*, unsigned int)>("nvmlSystemGetProcessName")(
      process_id, name.data(), unsigned(name.size()));
  return result == kNvmlSuccess ? name.data() : "";
}

DeviceSample Nvml::sample(const Gpu& gpu) const {
  DeviceSample sample;
  sample.device = "gpu:" + std::to_string(gpu.index);
  sample.device_name = gpu.name;
  Device device = nullptr;
  if (!try_call<int(unsigned int, Device*)>("nvmlDeviceGetHandleByIndex_v2", unsigned(gpu.index),
                                            &device)) {
    return sample;
  }
  NvmlUtilization utilization{};
  if (try_call<int(Device, NvmlUtilization*)>("nvmlDeviceGetUtilizationRates", device,
                                              &utilization)) {
    sample.utilization_percent = utilization.gpu;
  }
  NvmlMemory memory{};
  if (try_call<int(Device, NvmlMemory*)>("nvmlDeviceGetMemoryInfo", device, &memory)) {
    sample.memory_used_bytes = int64_t(memory.used);
    sample.memory_total_bytes = int64_t(memory.total);
  }
  unsigned int figure = 0;
  if (try_call<int(Device, unsigned int*)>("nvmlDeviceGetPowerUsage", device, &figure)) {
    sample.power_watts = figure / 1000.0;  // from milliwatts
  }
  using Indexed = int(Device, int, unsigned int*);
  if (try_call<Indexed>("nvmlDeviceGetTemperature", device, kNvmlTemperatureGpu, &figure)) {
    sample.temperature_celsius = figure;
  }
  if (try_call<Indexed>("nvmlDeviceGetClockInfo", device, kNvmlClockSm, &figure)) {
    sample.sm_clock_mhz = figure;
  }
  if (try_call<Indexed>("nvmlDeviceGetClockInfo", device, kNvmlClockMemory, &figure)) {
    sample.memory_clock_mhz = figure;
  }
  return sample;
}

NvidiaDriver Nvml::driver() const {
  NvidiaDriver driver;
  std::array<char, 96> version{};
  if (try_call<int(char*, unsigned int)>("nvmlSystemGetDriverVersion", version.data(),
                                         unsigned(version.size()))) {
    driver.version = version.data();
  }
  int cuda_version = 0;
  if (try_call<int(int*)>("nvmlSystemGetCudaDriverVersion_v2", &cuda_version)) {
    driver.cuda_version = cuda_version_text(cuda_version);
  }
  return driver;
}

std::optional<GpuFacts> Nvml::facts_of(const std::string& uuid) const {
  const auto find_device = [&](const std::string& full_uuid, Device* device) {
    return try_call<int(const char*, Device*)>("nvmlDeviceGetHandleByUUID", full_uuid.c_str(),
                                               device);
  };
  Device part = nullptr;
  if (!find_device("GPU-" + uuid, &part) && !find_device("MIG-" + uuid, &part)) return std::nullopt;
  Device gpu = nullptr;
  if (!try_call<int(Device, Device*)>("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", part, &gpu)) {
    gpu = part;  // it is no MIG slice
  }
  GpuFacts facts;
  unsigned int figure = 0;
  if (try_call<int(Device, unsigned int*)>("nvmlDeviceGetIndex", gpu, &figure)) {
    facts.device = "gpu:" + std::to_string(figure);
  }
  if (try_call<int(Device, unsigned int*)>("nvmlDeviceGetEnforcedPowerLimit", gpu, &figure)) {
    facts.power_limit_watts = figure / 1000.0;  // from milliwatts
  }
  if (try_call<int(Device, int, unsigned int*)>("nvmlDeviceGetMaxClockInfo", gpu, kNvmlClockSm,
                                                &figure)) {
    facts.sm_clock_mhz_max = figure;
  }
  facts.process_count = process_count(part);
  return facts;
}

// Without a list to fill, the library returns only the length that is needed.
std::optional<int64_t> Nvml::process_count(Device device) const {
  const auto list = function<int(Device, unsigned int*, NvmlProcessInfo*)>(
      "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2");
  unsigned int count = 0;
  const int result = list(device, &count, nullptr);
  if (result != kNvmlSuccess && result != kNvmlInsufficientSize) return std::nullopt;
  return count;
}

Nvml::Device Nvml::device_at(unsigned int index) const {
  Device device = nullptr;
  call<int(unsigned int, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &device);
  return device;
}

// Null if the library lacks the function.
template <typename Signature>
Signature* Nvml::find(const char* name) const {
  return reinterpret_cast<Signature*>(dlsym(library_, name));
}

// The first of these functions that the library has.
template <typename Signature>
Signature* Nvml::function(const char* name, const char* older_name) const {
  Signature* found = find<Signature>(name);
  if (found == nullptr && older_name != nullptr) found = find<Signature>(older_name);
  if (found == nullptr) {
    throw std::runtime_error(
        std::string("the NVIDIA driver is too old: libnvidia-ml.so.1 has no ") + name);
  }
  return found;
}

template <typename Signature, typename... Arguments>
void Nvml::call(const char* name, Arguments... arguments) const {
  check(function<Signature>(name)(arguments...), name);
}

// True if the library has the function and the call succeeds.
template <typename Signature, typename... Arguments>
bool Nvml::try_call(const char* name, Arguments... arguments) const {
  Signature* found = find<Signature>(name);
  return found != nullptr && found(arguments...) == kNvmlSuccess;
}

void Nvml::check(int result, const char* name) const {
  if (result == kNvmlSuccess) return;
  throw std::runtime_error(std::string("NVIDIA driver: ") + name + ": " +
                           function<const char*(int)>("nvmlErrorString")(result));
}

}  // namespace fsdp
