#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/state.h"

namespace {

using fsdp::fake_cuda::host_clock;
using fsdp::fake_cuda::merge;

// A condition of waiting work. All other work is done when it is issued.
using Condition = std::function<bool()>;
using Conditions = std::set<std::shared_ptr<Condition>>;  // shared, as streams wait for each other

std::mutex stream_mutex;

int& current_device() {
  thread_local int device = 0;
  return device;
}

}  // namespace

struct CUstream_st {
  int number;
  Conditions conditions;
  fsdp::fake_cuda::Clock clock{};
};
struct CUevent_st {
  int stream = 0;
  Conditions conditions;
  fsdp::fake_cuda::Clock clock;
  std::chrono::steady_clock::time_point recorded;
};

namespace {

// The streams of the process, which has one device; null is the default stream.
std::set<CUstream_st*>& streams() {
  static CUstream_st default_stream{.number = 0, .conditions = {}};
  static std::set<CUstream_st*> all = {&default_stream};
  return all;
}

// A made-up stream of a test counts as the default stream.
CUstream_st& of(cudaStream_t stream) {
  static CUstream_st* const default_stream = *streams().begin();
  return streams().contains(stream) ? *stream : *default_stream;
}

bool is_done(Conditions& conditions) {
  std::erase_if(conditions, [](const std::shared_ptr<Condition>& is_met) { return (*is_met)(); });
  return conditions.empty();
}

template <typename Handle>
cudaError_t query(Handle& handle) {
  const std::lock_guard lock(stream_mutex);
  if (!is_done(handle.conditions)) return cudaErrorNotReady;
  merge(host_clock(), handle.clock);
  return cudaSuccess;
}

template <typename Handle>
cudaError_t synchronize(Handle& handle) {
  using std::chrono::microseconds;
  for (microseconds pause(20); query(handle) != cudaSuccess;) {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, microseconds(1000));
  }
  return cudaSuccess;
}

constexpr int kMultiprocessors = 108;
constexpr int kThreadsPerMultiprocessor = 2048;
constexpr int kThreadsPerBlock = 1024;
constexpr int kSharedBytes = 48 << 10;
constexpr int kSharedBytesOptin = 227 << 10;
constexpr int kRegisters = 64 << 10;
constexpr int kHighestPriority = -5;

thread_local cudaError_t last_error = cudaSuccess;

struct Capability {
  int major, minor;
};

Capability capability_of(int device) {
  const char* text = std::getenv("FAKE_CUDA_CAPABILITY");
  if (text == nullptr) return {7 + device % 4, 0};
  return {std::atoi(text), std::atoi(std::strchr(text, '.') + 1)};
}

// Returns the version of the code that runs on a GPU, of those that PyTorch's wheel for CUDA 13
// has. CUB knows no others.
int code_version(Capability capability) {
  constexpr int kVersions[] = {75, 80, 86, 90, 100, 120};
  const int version = 10 * capability.major + capability.minor;
  const int* newer = std::ranges::upper_bound(kVersions, version);
  return newer == kVersions ? version : newer[-1];
}

std::set<fsdp::fake_cuda::Wait> waits_done;
std::optional<fsdp::fake_cuda::Wait> left_out;

struct Launch {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};

std::vector<Launch>& configured() {
  thread_local std::vector<Launch> launches;
  return launches;
}

}  // namespace

namespace fsdp::fake_cuda {

int gpu_count() {
  const char* text = std::getenv("FAKE_CUDA_GPUS");
  return text == nullptr ? 4 : std::atoi(text);
}

int64_t device_bytes() {
  const char* text = std::getenv("FAKE_CUDA_MEMORY_GIB");
  return text == nullptr ? kDeviceBytes : int64_t{std::atoi(text)} << 30;
}

cudaError_t failed(cudaError_t error) { return last_error = error; }

void wait_for(cudaStream_t stream, std::function<bool()> is_done) {
  const std::lock_guard lock(stream_mutex);
  of(stream).conditions.insert(std::make_shared<Condition>(std::move(is_done)));
}

std::set<Wait> take_waits() {
  const std::lock_guard lock(stream_mutex);
  return std::exchange(waits_done, {});
}

void leave_out(std::optional<Wait> wait) {
  const std::lock_guard lock(stream_mutex);
  left_out = wait;
}

std::pair<int, Clock> tick(cudaStream_t stream) {
  const std::lock_guard lock(stream_mutex);
  CUstream_st& ticking = of(stream);
  merge(ticking.clock, host_clock());
  const auto number = static_cast<size_t>(ticking.number);
  ticking.clock.resize(std::max(ticking.clock.size(), number + 1));
  ++ticking.clock[number];
  return {ticking.number, ticking.clock};
}

}  // namespace fsdp::fake_cuda

using fsdp::fake_cuda::failed;

extern "C" {

// --- devices ---

cudaError_t cudaGetDeviceCount(int* count) {
  *count = fsdp::fake_cuda::gpu_count();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= fsdp::fake_cuda::gpu_count()) return failed(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = cudaDeviceProp{};
  std::strcpy(properties->name, "Fake GPU");
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  properties->totalGlobalMem = static_cast<size_t>(fsdp::fake_cuda::device_bytes());
  const Capability capability = capability_of(device);
  properties->major = capability.major;
  properties->minor = capability.minor;
  properties->pciBusID = device + 1;
  properties->warpSize = 32;
  properties->multiProcessorCount = kMultiprocessors;
  properties->maxThreadsPerBlock = kThreadsPerBlock;
  properties->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->regsPerBlock = properties->regsPerMultiprocessor = kRegisters;
  properties->sharedMemPerBlock = kSharedBytes;
  properties->sharedMemPerBlockOptin = kSharedBytesOptin;
  properties->sharedMemPerMultiprocessor = kSharedBytesOptin + (1 << 10);
  properties->l2CacheSize = 40 << 20;
  const int largest_block[] = {kThreadsPerBlock, kThreadsPerBlock, 64};
  const int largest_grid[] = {2147483647, 65535, 65535};
  std::memcpy(properties->maxThreadsDim, largest_block, sizeof(largest_block));
  std::memcpy(properties->maxGridSize, largest_grid, sizeof(largest_grid));
  properties->unifiedAddressing = 1;
  properties->concurrentKernels = 1;
  properties->cooperativeLaunch = 1;
  properties->canMapHostMemory = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Capability capability = capability_of(device);
  const std::map<cudaDeviceAttr, int> values = {
      {cudaDevAttrComputeCapabilityMajor, capability.major},
      {cudaDevAttrComputeCapabilityMinor, capability.minor},
      {cudaDevAttrMultiProcessorCount, kMultiprocessors},
      {cudaDevAttrMaxThreadsPerBlock, kThreadsPerBlock},
      {cudaDevAttrMaxThreadsPerMultiProcessor, kThreadsPerMultiprocessor},
      {cudaDevAttrMaxSharedMemoryPerBlock, kSharedBytes},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedBytesOptin},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, kSharedBytesOptin + (1 << 10)},
      {cudaDevAttrMaxRegistersPerBlock, kRegisters},
      {cudaDevAttrMaxGridDimX, 2147483647},
      {cudaDevAttrMaxGridDimY, 65535},
      {cudaDevAttrMaxGridDimZ, 65535},
      {cudaDevAttrWarpSize, 32},
  };
  const auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<size_t>(size), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned int) { return cudaSuccess; }

cudaError_t cudaDeviceSynchronize() {
  std::unique_lock lock(stream_mutex);
  const std::set<CUstream_st*> all = streams();
  lock.unlock();
  for (CUstream_st* stream : all) synchronize(*stream);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

// --- streams and events ---

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = kHighestPriority;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int) {
  const std::lock_guard lock(stream_mutex);
  of(nullptr);
  static int made = 0;
  streams().insert(*stream = new CUstream_st{.number = ++made, .conditions = {}});
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(stream_mutex);
  streams().erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return query(of(stream)); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return synchronize(of(stream)); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  const std::lock_guard lock(stream_mutex);
  const fsdp::fake_cuda::Wait wait{event->stream, of(stream).number};
  if (wait.first != wait.second) waits_done.insert(wait);
  if (wait == left_out) return cudaSuccess;
  merge(of(stream).clock, event->clock);
  if (is_done(event->conditions)) return cudaSuccess;
  of(stream).conditions.insert(event->conditions.begin(), event->conditions.end());
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned int) {
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
#if CUDART_VERSION >= 13000
                                     const cudaGraphEdgeData**,
#endif
                                     size_t*) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st{};
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(stream_mutex);
  is_done(of(stream).conditions);
  event->conditions = of(stream).conditions;
  event->clock = of(stream).clock;
  event->stream = of(stream).number;
  event->recorded = std::chrono::steady_clock::now();
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int) {
  return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return query(*event); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return synchronize(*event); }

cudaError_t cudaEventElapsedTime(float* time_ms, cudaEvent_t from, cudaEvent_t to) {
  *time_ms = std::chrono::duration<float, std::milli>(to->recorded - from->recorded).count();
  return cudaSuccess;
}

// --- kernels ---

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  configured().push_back({grid, block, shared_bytes, static_cast<cudaStream_t>(stream)});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  const Launch launch = configured().back();
  configured().pop_back();
  *grid = launch.grid;
  *block = launch.block;
  *shared_bytes = launch.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = launch.stream;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void*, dim3 grid, dim3 block, void**, size_t shared_bytes,
                             cudaStream_t) {
  const bool is_valid = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 2147483647u &&
                        grid.y <= 65535 && grid.z <= 65535 && block.x > 0 && block.y > 0 &&
                        block.z > 0 && block.x * block.y * block.z <= kThreadsPerBlock &&
                        shared_bytes <= kSharedBytesOptin;
  return is_valid ? cudaSuccess : failed(cudaErrorInvalidConfiguration);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  return cudaLaunchKernel(function, config->gridDim, config->blockDim, arguments,
                          config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = kThreadsPerBlock;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion =
      code_version(capability_of(current_device()));
  attributes->maxDynamicSharedSizeBytes = kSharedBytes;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int block_threads, size_t,
                                                                   unsigned int) {
  *blocks = std::max(1, kThreadsPerMultiprocessor / block_threads);
  return cudaSuccess;
}

}  // extern "C"
