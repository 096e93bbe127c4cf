#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

// A fake libnvidia-ml.so.1, with the functions that contract/devices/nvml.cpp and libtorch load.
// Each figure of a GPU is one larger than on the GPU before it. The last GPU has no power sensor.
//
//   FAKE_NVML_GPUS="80 40"              memory of each GPU in GiB
//   FAKE_NVML_PROCESSES="1 4242 3 ..."  per process: GPU, process id, GiB
//
//   FAKE_NVML_CUDA=13000                the newest CUDA that the driver serves
//   FAKE_NVML_CAPABILITY=80             compute capability of all GPUs, 8.0
//
//   FAKE_NVML_MIG=1                     GPUs are cut: "MIG-aaaaaaaa" is a slice of GPU 0, and its
//                                       number in FAKE_NVML_PROCESSES is 100
//
// The UUID of GPU 0 is "GPU-aaaaaaaa", of GPU 1 "GPU-bbbbbbbb", and so on.
namespace {

constexpr unsigned long long kGib = 1ULL << 30;
constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned int gpu, memory;
};
struct ProcessInfo {
  unsigned int process_id;
  unsigned long long used_gpu_memory;
  unsigned int gpu_instance_id, compute_instance_id;
};

std::vector<unsigned long long> numbers(const char* variable) {
  const char* text = std::getenv(variable);
  std::istringstream stream(text == nullptr ? "" : text);
  std::vector<unsigned long long> values;
  for (unsigned long long value = 0; stream >> value;) values.push_back(value);
  return values;
}

int number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

constexpr size_t kFirstSlice = 100;

// A device's handle is its index + 1.
size_t index_of(const void* device) { return reinterpret_cast<size_t>(device) - 1; }
void* handle_of(size_t index) { return reinterpret_cast<void*>(index + 1); }

std::string uuid_of(size_t index) { return std::string(8, static_cast<char>('a' + index)); }

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(int) { return "an error of the fake library"; }

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = static_cast<unsigned int>(numbers("FAKE_NVML_GPUS").size());
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  *device = handle_of(index);
  return kSuccess;
}

int nvmlDeviceGetName(void*, char* name, unsigned int size) {
  std::strncpy(name, "Fake GPU", size);
  return kSuccess;
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned int size) {
  std::strncpy(uuid, ("GPU-" + uuid_of(index_of(device))).c_str(), size);
  return kSuccess;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  const bool is_cut = std::getenv("FAKE_NVML_MIG") != nullptr;
  for (size_t i = 0; i < numbers("FAKE_NVML_GPUS").size(); ++i) {
    if (uuid != (is_cut ? "MIG-" : "GPU-") + uuid_of(i)) continue;
    *device = handle_of(is_cut ? kFirstSlice + i : i);
    return kSuccess;
  }
  return kNotFound;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* slice, void** device) {
  if (index_of(slice) < kFirstSlice) return kInvalidArgument;
  *device = handle_of(index_of(slice) - kFirstSlice);
  return kSuccess;
}

int nvmlDeviceGetIndex(void* device, unsigned int* index) {
  *index = static_cast<unsigned int>(index_of(device));
  return kSuccess;
}

int nvmlSystemGetDriverVersion(char* version, unsigned int size) {
  std::strncpy(version, "580.65.06", size);
  return kSuccess;
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = number("FAKE_NVML_CUDA", 13000);
  return kSuccess;
}

int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  const int capability = number("FAKE_NVML_CAPABILITY", 80);
  *major = capability / 10;
  *minor = capability % 10;
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  memory->total = numbers("FAKE_NVML_GPUS").at(index_of(device)) * kGib;
  memory->used = (index_of(device) + 1) * kGib;
  memory->free = memory->total - memory->used;
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(void* device, Utilization* utilization) {
  *utilization = {50 + static_cast<unsigned int>(index_of(device)), 20};
  return kSuccess;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts) {
  if (index_of(device) + 1 == numbers("FAKE_NVML_GPUS").size()) return kNotSupported;
  *milliwatts = 300'500 + 1000 * static_cast<unsigned int>(index_of(device));
  return kSuccess;
}

int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned int* milliwatts) {
  unsigned int drawn = 0;
  if (nvmlDeviceGetPowerUsage(device, &drawn) != kSuccess) return kNotSupported;
  *milliwatts = 699'500 + 1000 * static_cast<unsigned int>(index_of(device));
  return kSuccess;
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned int* celsius) {
  if (sensor != 0) return kNotSupported;
  *celsius = 60 + static_cast<unsigned int>(index_of(device));
  return kSuccess;
}

int nvmlDeviceGetClockInfo(void* device, int clock, unsigned int* mhz) {
  if (clock != 1 && clock != 2) return kNotSupported;
  *mhz = (clock == 1 ? 1400 : 2600) + static_cast<unsigned int>(index_of(device));
  return kSuccess;
}

int nvmlDeviceGetMaxClockInfo(void* device, int clock, unsigned int* mhz) {
  if (clock != 1) return kNotSupported;
  *mhz = 1980 + static_cast<unsigned int>(index_of(device));
  return kSuccess;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned int* count,
                                            ProcessInfo* processes) {
  std::vector<ProcessInfo> found;
  const std::vector<unsigned long long> all = numbers("FAKE_NVML_PROCESSES");
  for (size_t i = 0; i + 2 < all.size(); i += 3) {
    if (all[i] == index_of(device)) {
      found.push_back({static_cast<unsigned int>(all[i + 1]), all[i + 2] * kGib, 0, 0});
    }
  }
  const bool fits = found.size() <= *count;
  if (fits) std::copy(found.begin(), found.end(), processes);
  *count = static_cast<unsigned int>(found.size());
  return fits ? kSuccess : kInsufficientSize;
}

// The GPUs of tests/fakes/cuda: "0000:01:00.0" is GPU 0.
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  *device = handle_of(static_cast<size_t>(std::strtol(bus + 5, nullptr, 16)) - 1);
  return kSuccess;
}

// libtorch asks when it is out of memory.
int nvmlDeviceGetComputeRunningProcesses(void*, unsigned int* count, void*) {
  *count = 0;
  return kSuccess;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned int, int*) { return kNotSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned int, void*) { return kNotSupported; }

int nvmlSystemGetProcessName(unsigned int, char* name, unsigned int size) {
  std::strncpy(name, "python", size);
  return kSuccess;
}

}  // extern "C"
