#include "runner/launch/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "trainer/contract/config_error.h"

namespace fsdp {
namespace {

// What is used of nvml.h (its ABI is stable; the names carry the version of a layout).
using NvmlDevice = struct NvmlDeviceStruct*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlProcessInfo {  // nvmlProcessInfo_v2_t, also of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned int process_id;
  unsigned long long used_gpu_memory;
  unsigned int gpu_instance_id, compute_instance_id;
};
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlInsufficientSize = 7;
constexpr int kNvmlDriverNotLoaded = 9;
constexpr unsigned long long kNvmlValueNotAvailable = ~0ULL;

// The library between nvmlInit and nvmlShutdown.
class Nvml {
 public:
  // Null when there is no library or no driver.
  static std::unique_ptr<Nvml> open() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    std::unique_ptr<Nvml> nvml(new Nvml(library));
    const int result = nvml->function<int()>("nvmlInit_v2")();
    if (result == kNvmlDriverNotLoaded) return nullptr;
    nvml->check(result, "nvmlInit_v2");
    nvml->initialised_ = true;
    return nvml;
  }
  ~Nvml() {
    if (initialised_) function<int()>("nvmlShutdown")();
    dlclose(library_);
  }

  std::vector<Gpu> gpus() const {
    unsigned int count = 0;
    call<int(unsigned int*)>("nvmlDeviceGetCount_v2", &count);
    std::vector<Gpu> gpus;
    for (unsigned int i = 0; i < count; ++i) {
      const NvmlDevice device = device_at(i);
      std::array<char, 96> name{}, uuid{};
      NvmlMemory memory{};
      call<int(NvmlDevice, char*, unsigned int)>("nvmlDeviceGetName", device, name.data(),
                                                 unsigned(name.size()));
      call<int(NvmlDevice, char*, unsigned int)>("nvmlDeviceGetUUID", device, uuid.data(),
                                                 unsigned(uuid.size()));
      call<int(NvmlDevice, NvmlMemory*)>("nvmlDeviceGetMemoryInfo", device, &memory);
      gpus.push_back({.index = int(i),
                      .name = name.data(),
                      .uuid = uuid.data(),
                      .memory_bytes = int64_t(memory.total)});
    }
    return gpus;
  }

  std::vector<NvmlProcessInfo> processes_on(int index) const {
    const NvmlDevice device = device_at(unsigned(index));
    const auto list = function<int(NvmlDevice, unsigned int*, NvmlProcessInfo*)>(
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

  // Empty when the process is gone or in another container.
  std::string process_name(unsigned int process_id) const {
    std::array<char, 256> name{};
    const int result = function<int(unsigned int, char*, unsigned int)>("nvmlSystemGetProcessName")(
        process_id, name.data(), unsigned(name.size()));
    return result == kNvmlSuccess ? name.data() : "";
  }

 private:
  explicit Nvml(void* library) : library_(library) {}

  NvmlDevice device_at(unsigned int index) const {
    NvmlDevice device = nullptr;
    call<int(unsigned int, NvmlDevice*)>("nvmlDeviceGetHandleByIndex_v2", index, &device);
    return device;
  }

  // The function of the first of these names that the library has.
  template <typename Signature>
  Signature* function(const char* name, const char* older_name = nullptr) const {
    void* symbol = dlsym(library_, name);
    if (symbol == nullptr && older_name != nullptr) symbol = dlsym(library_, older_name);
    if (symbol == nullptr) {
      throw std::runtime_error(
          std::string("the NVIDIA driver is too old: libnvidia-ml.so.1 has no ") + name);
    }
    return reinterpret_cast<Signature*>(symbol);
  }

  template <typename Signature, typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    check(function<Signature>(name)(arguments...), name);
  }

  void check(int result, const char* name) const {
    if (result == kNvmlSuccess) return;
    throw std::runtime_error(std::string("NVIDIA driver: ") + name + ": " +
                             function<const char*(int)>("nvmlErrorString")(result));
  }

  void* library_;
  bool initialised_ = false;
};

std::string gib_text(unsigned long long bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f GiB", double(bytes) / (1ULL << 30));
  return text.data();
}

// "process 4242 'python' (3.0 GiB), process ..."; empty when none computes on it.
std::string holders_text(const Nvml& nvml, int index) {
  std::string text;
  for (const NvmlProcessInfo& process : nvml.processes_on(index)) {
    if (!text.empty()) text += ", ";
    text += "process " + std::to_string(process.process_id);
    const std::string name = nvml.process_name(process.process_id);
    if (!name.empty()) text += " '" + name + "'";
    if (process.used_gpu_memory != kNvmlValueNotAvailable) {
      text += " (" + gib_text(process.used_gpu_memory) + ")";
    }
  }
  return text;
}

bool matches(const Gpu& gpu, std::string_view item) {
  int index = -1;
  const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), index);
  if (error == std::errc() && end == item.data() + item.size()) return gpu.index == index;
  return item.starts_with("GPU-") && gpu.uuid.starts_with(item);
}

}  // namespace

std::vector<Gpu> find_gpus() {
  const std::unique_ptr<Nvml> nvml = Nvml::open();
  return nvml ? nvml->gpus() : std::vector<Gpu>{};
}

std::vector<Gpu> choose_gpus(const std::vector<Gpu>& found, std::string_view list,
                             const std::string& place) {
  std::vector<Gpu> chosen;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    const auto gpu = std::find_if(found.begin(), found.end(),
                                  [&](const Gpu& candidate) { return matches(candidate, item); });
    if (gpu == found.end()) {
      std::string allowed;
      for (const Gpu& candidate : found) {
        allowed += (allowed.empty() ? "" : ", ") + std::to_string(candidate.index);
      }
      throw ConfigError(place, "",
                        "'" + std::string(item) + "' is none of this host's GPUs; allowed: " +
                            (allowed.empty() ? "none, no NVIDIA GPU was found" : allowed));
    }
    const bool twice = std::any_of(chosen.begin(), chosen.end(),
                                   [&](const Gpu& other) { return other.index == gpu->index; });
    if (twice)
      throw ConfigError(place, "", "GPU " + std::to_string(gpu->index) + " is named twice");
    chosen.push_back(*gpu);
  }
  return chosen;
}

std::vector<Gpu> unheld_gpus(std::span<const Gpu> gpus, size_t needed) {
  const std::unique_ptr<Nvml> nvml = gpus.empty() ? nullptr : Nvml::open();
  if (!nvml) return {gpus.begin(), gpus.end()};
  std::vector<Gpu> unheld;
  std::string holders;
  for (const Gpu& gpu : gpus) {
    const std::string held = holders_text(*nvml, gpu.index);
    if (held.empty()) {
      unheld.push_back(gpu);
    } else {
      holders +=
          "GPU " + std::to_string(gpu.index) + " (" + gpu.name + ") is held by " + held + "; ";
    }
  }
  if (unheld.size() < needed) {
    throw ConfigError("", "",
                      std::to_string(needed) + (needed == 1 ? " GPU is" : " GPUs are") +
                          " needed, " + std::to_string(unheld.size()) + " free; " + holders +
                          "wait for them, stop them, or choose other GPUs with --gpus");
  }
  return unheld;
}

}  // namespace fsdp
