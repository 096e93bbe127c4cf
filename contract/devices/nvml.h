#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/devices/device_requirements.h"
#include "contract/record/event.h"

// NVIDIA's management library (NVML), loaded at run time. A host without the library counts as a
// host without GPUs.
namespace fsdp {

struct Gpu {
  int index = 0;  // as nvidia-smi counts, in the order of the PCI bus
  std::string name{};
  std::string uuid{};  // "GPU-8c9f..."
  int64_t memory_bytes = 0;
  std::optional<ComputeCapability> capability{};
};

// A process that computes on a GPU. The layout is nvmlProcessInfo_v2_t, which
// nvmlDeviceGetComputeRunningProcesses_v3 also uses.
struct NvmlProcessInfo {
  unsigned int process_id;
  unsigned long long used_gpu_memory;
  unsigned int gpu_instance_id, compute_instance_id;
};
inline constexpr unsigned long long kNvmlValueNotAvailable = ~0ULL;

// Facts about the GPU that a process computes on. Facts that the driver does not give are absent.
struct GpuFacts {
  // The name in device samples, such as "gpu:3". For a MIG slice, it is the GPU that contains it.
  std::string device;
  std::optional<double> power_limit_watts;
  std::optional<double> sm_clock_mhz_max;
  // The number of processes with a context on the GPU or MIG slice, including the caller.
  std::optional<int64_t> process_count;
};

// The loaded and initialised library. Functions throw std::runtime_error when the driver refuses,
// unless they say otherwise. GPUs are named by their index.
class Nvml {
 public:
  // Null if there is no library or no driver.
  static std::unique_ptr<Nvml> open();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::vector<Gpu> gpus() const;
  std::vector<NvmlProcessInfo> processes_on(int index) const;
  // Empty if the process has ended or is in another container.
  std::string process_name(unsigned int process_id) const;
  // Measures the GPU now. Figures that the driver refuses are absent, and `host` is empty.
  DeviceSample sample(const Gpu& gpu) const;
  // The driver's two versions; each is empty if the driver does not give it.
  NvidiaDriver driver() const;
  // Facts about the GPU or MIG slice with this UUID, without "GPU-" or "MIG-", as CUDA gives it.
  // CUDA's device numbers do not identify a GPU: CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and MIG
  // change them. nullopt if the driver does not know the UUID.
  std::optional<GpuFacts> facts_of(const std::string& uuid) const;

 private:
  using Device = struct NvmlDeviceStruct*;

  explicit Nvml(void* library) : library_(library) {}

  Device device_at(int index) const;
  // `count` is first the number that fit into `processes`, and then the number of processes.
  // Returns the result of NVML.
  int list_processes(Device device, unsigned int* count, NvmlProcessInfo* processes) const;
  // Null if the library lacks the function.
  template <typename Function>
  Function* find(const char* name) const;
  // Throws if the library lacks the function.
  template <typename... Arguments>
  int result_of(const char* name, Arguments... arguments) const;
  // Also throws if the function fails.
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) const;
  // True if the library has the function and the call succeeds.
  template <typename... Arguments>
  bool try_call(const char* name, Arguments... arguments) const;
  // The number that a function writes through its last parameter. nullopt if the call fails.
  template <typename... Arguments>
  std::optional<unsigned int> figure(const char* name, Arguments... arguments) const;
  void check(int result, const char* name) const;

  void* library_;
  bool initialised_ = false;
};

}  // namespace fsdp
