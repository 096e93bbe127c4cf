// Each row breaks one rule of CUDA, as an error in our code would. The fake GPU must refuse it as a
// GPU does (tests/fakes/cuda/README.md).
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda.h>

#include "tests/fake_cuda/refused_calls.h"
#include "trainer/memory/cuda_memory.h"
#ifdef FSDP_CUDA_KERNELS
#include "trainer/step/adam_kernel.h"
#endif

namespace fsdp::refusals_test {

void register_pages(char* pages, size_t bytes) {
  C10_CUDA_CHECK(cudaHostRegister(pages, bytes, cudaHostRegisterDefault));
}

TEST_CASE("break: memory of the host is registered, copied or set wrongly") {
  constexpr int64_t kFloats = 3 * 1024;  // three pages
  const at::Tensor registered = empty_registered(kFloats, at::kFloat);
  const at::Tensor other = at::zeros({4 * kFloats});
  char* const pages = static_cast<char*>(registered.data_ptr());
  const at::Tensor x = floats({kFloats});
  const auto copy = [&](void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return [=] { C10_CUDA_CHECK(cudaMemcpy(to, from, bytes, kind)); };
  };
  check_refusals({
      {"no bytes", [&] { register_pages(pages, 0); }, "invalid argument"},
      {"no memory", [&] { register_pages(nullptr, 4096); }, "invalid argument"},
      {"memory of the device", [&] { register_pages(static_cast<char*>(x.data_ptr()), 4096); },
       "invalid argument"},
      {"twice", [&] { register_pages(pages, 4096); }, "already mapped"},
      {"a page of it", [&] { register_pages(pages + 4096, 4096); }, "already mapped"},
      {"unknown flags", [&] { C10_CUDA_CHECK(cudaHostRegister(pages, 1, 64)); },
       "invalid argument"},
      {"ended, but never begun", [&] { C10_CUDA_CHECK(cudaHostUnregister(other.data_ptr())); },
       "does not correspond to a registered memory region"},
      {"freed, but registered", [&] { C10_CUDA_CHECK(cudaFreeHost(pages)); }, "invalid argument"},
      {"freed from its middle", [&] { C10_CUDA_CHECK(cudaFree(x.data_ptr<float>() + 1)); },
       "invalid argument"},
      {"copied beyond its end", copy(x.data_ptr(), pages, 4 * 4096, cudaMemcpyHostToDevice),
       "invalid argument"},
      {"copied beyond the device's memory",
       copy(x.data_ptr(), other.data_ptr(), size_t{1} << 40, cudaMemcpyHostToDevice),
       "invalid argument"},
      {"copied from nowhere", copy(x.data_ptr(), nullptr, 4, cudaMemcpyDefault),
       "invalid argument"},
      {"copied in the other direction", copy(x.data_ptr(), pages, 4, cudaMemcpyDeviceToHost),
       "invalid copy direction"},
      {"set on the host", [&] { C10_CUDA_CHECK(cudaMemset(other.data_ptr(), 0, 4)); },
       "invalid argument"},
  });
}

TEST_CASE("break: a handle is destroyed, of another GPU, or not fit for its use") {
  const c10::DeviceGuard guard(kHere);
  const cudaStream_t there = stream_of(kOtherGpu), stream = destroyed_stream();
  cudaEvent_t event = nullptr, untimed = nullptr, destroyed = nullptr;
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming) == cudaSuccess);
  REQUIRE(cudaEventCreate(&destroyed) == cudaSuccess);
  REQUIRE(cudaEventDestroy(destroyed) == cudaSuccess);
  float time_ms = 0;
  check_refusals({
      {"work on a destroyed stream", [&] { C10_CUDA_CHECK(cudaStreamSynchronize(stream)); },
       "invalid resource handle"},
      {"a stream is destroyed twice", [&] { C10_CUDA_CHECK(cudaStreamDestroy(stream)); },
       "invalid resource handle"},
      {"the default stream is destroyed", [] { C10_CUDA_CHECK(cudaStreamDestroy(nullptr)); },
       "invalid resource handle"},
      {"a wait for a destroyed event",
       [&] { C10_CUDA_CHECK(cudaStreamWaitEvent(nullptr, destroyed, 0)); },
       "invalid resource handle"},
      {"an event is destroyed twice", [&] { C10_CUDA_CHECK(cudaEventDestroy(destroyed)); },
       "invalid resource handle"},
      {"an event of another GPU's stream", [&] { C10_CUDA_CHECK(cudaEventRecord(event, there)); },
       "invalid resource handle"},
      {"the time of an event that was not recorded",
       [&] { C10_CUDA_CHECK(cudaEventElapsedTime(&time_ms, event, event)); },
       "invalid resource handle"},
      {"the time of an event without timing",
       [&] {
         C10_CUDA_CHECK(cudaEventRecord(untimed, nullptr));
         C10_CUDA_CHECK(cudaEventElapsedTime(&time_ms, untimed, untimed));
       },
       "invalid resource handle"},
      {"a GPU that is not there", [] { C10_CUDA_CHECK(cudaSetDevice(64)); },
       "invalid device ordinal"},
      {"a GPU as its own peer", [] { C10_CUDA_CHECK(cudaDeviceEnablePeerAccess(kGpu, 0)); },
       "invalid device ordinal"},
      {"a peer twice",
       [] {
         cudaDeviceEnablePeerAccess(kOtherGpu, 0);
         C10_CUDA_CHECK(cudaDeviceEnablePeerAccess(kOtherGpu, 0));
       },
       "already enabled"},
  });
}

extern "C" cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);

TEST_CASE("break: functions that libtorch calls for us get what they refuse") {
  static const char unknown = 0;
  const c10::DeviceGuard guard(kHere);
  const at::Tensor x = floats({64});
  void* const data = x.data_ptr();
  cudaStream_t stream = destroyed_stream();
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  cudaDeviceProp properties;
  cudaFuncAttributes attributes;
  cudaKernel_t kernel = nullptr;
  cudaStreamCaptureStatus status{};
  dim3 grid, block;
  size_t bytes = 0;
  int value = 0;
  char text[16];
  void* made = nullptr;
  const auto nothing = [](cudaStream_t, cudaError_t, void*) {};
  CHECK(cudaGetDeviceProperties(&properties, 64) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 64) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceGetPCIBusId(text, sizeof text, 64) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceCanAccessPeer(&value, kGpu, 64) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceEnablePeerAccess(kOtherGpu, 1) == cudaErrorInvalidValue);
  CHECK(__cudaGetKernel(&kernel, &unknown) == cudaErrorInvalidDeviceFunction);
  CHECK(__cudaPopCallConfiguration(&grid, &block, &bytes, &made) == cudaErrorMissingConfiguration);
  CHECK(cudaFuncGetAttributes(&attributes, &unknown) == cudaErrorInvalidDeviceFunction);
  CHECK(cudaFuncSetAttribute(&unknown, cudaFuncAttributeMaxDynamicSharedMemorySize, 1) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, &unknown, 32, 0, 0) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaMalloc(nullptr, 1) == cudaErrorInvalidValue);
  CHECK(cudaHostAlloc(&made, 1, 64) == cudaErrorInvalidValue);
  CHECK(cudaHostUnregister(nullptr) == cudaErrorInvalidValue);
  CHECK(cudaPointerGetAttributes(nullptr, data) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(data, data, 4, cudaMemcpyDefault, stream) ==
        cudaErrorInvalidResourceHandle);
  CHECK(cudaMemsetAsync(data, 0, 4, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetDriverEntryPointByVersion(nullptr, &made, CUDA_VERSION, 0, nullptr) ==
        cudaErrorInvalidValue);
  CHECK(cudaStreamCreateWithPriority(&stream, 64, 0) == cudaErrorInvalidValue);
  CHECK(cudaStreamWaitEvent(nullptr, event, 64) == cudaErrorInvalidValue);
  CHECK(cudaStreamAddCallback(stream, nothing, nullptr, 0) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamAddCallback(nullptr, nullptr, nullptr, 0) == cudaErrorInvalidValue);
  CHECK(cudaStreamIsCapturing(stream, &status) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventCreateWithFlags(&event, 64) == cudaErrorInvalidValue);
  CHECK(cudaEventRecordWithFlags(event, nullptr, 64) == cudaErrorInvalidValue);
  cudaEvent_t there = nullptr;
  {
    const c10::DeviceGuard of_other(kThere);
    REQUIRE(cudaEventCreate(&there) == cudaSuccess);
    REQUIRE(cudaEventRecord(there, nullptr) == cudaSuccess);
  }
  REQUIRE(cudaEventRecord(event, nullptr) == cudaSuccess);
  float time_ms = 0;
  CHECK(cudaEventElapsedTime(&time_ms, event, there) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

#ifdef FSDP_CUDA_KERNELS
void step(int64_t size, cudaStream_t stream) {
  const at::Tensor x = floats({64});
  const AdamTensors tensors{.parameters = x.data_ptr(),
                            .gradient = x.data_ptr(),
                            .first_moment = x.data_ptr(),
                            .second_moment = x.data_ptr(),
                            .has_bfloat16_parameters = true,
                            .has_bfloat16_state = false,
                            .size = size};
  const float* const step = x.const_data_ptr<float>();
  C10_CUDA_CHECK(start_adam(tensors, {}, {}, {step, nullptr, nullptr}, stream));
}

TEST_CASE("break: our kernel is started without blocks, or on another GPU's stream") {
  check_refusals(
      {{"elements that were counted wrongly", [] { step(-64, nullptr); }, "invalid configuration"},
       {"another GPU's stream",
        [] { step(64, c10::cuda::getStreamFromPool(false, kOtherGpu).stream()); },
        "invalid resource handle"}});
}
#endif

extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*,
                                       dim3*, dim3*, int*);

TEST_CASE("break: a launch takes more than its GPU has") {
  static const char kernel = 0, unknown = 0;
  __cudaRegisterFunction(nullptr, &kernel, nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  const auto launch = [](const void* function, dim3 grid, dim3 block, size_t shared_bytes) {
    return [=] {
      C10_CUDA_CHECK(cudaLaunchKernel(function, grid, block, nullptr, shared_bytes, nullptr));
    };
  };
  const auto ask = [](int bytes) {
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(&kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  };
  check_refusals({
      {"a function that is no kernel", launch(&unknown, 1, 1, 0), "invalid device function"},
      {"no threads", launch(&kernel, 1, 0, 0), "invalid configuration"},
      {"too many blocks of y", launch(&kernel, dim3(1, 65536), 1, 0), "invalid configuration"},
      {"too many threads", launch(&kernel, 1, dim3(512, 4), 0), "invalid configuration"},
      {"too many threads of z", launch(&kernel, 1, dim3(1, 1, 65), 0), "invalid configuration"},
      {"shared memory without asking", launch(&kernel, 1, 1, 49 << 10), "invalid argument"},
      {"an occupancy without threads",
       [] {
         int blocks = 0;
         C10_CUDA_CHECK(
             cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, &kernel, 0, 0, 0));
       },
       "invalid argument"},
      {"more shared memory than 8.0 has", [&] { ask(164 << 10); }, "invalid argument"},
  });
  const c10::DeviceGuard guard(kHere);
  ask(163 << 10);
  CHECK(error_of(launch(&kernel, 1, 1, 163 << 10)) == "");
  const c10::DeviceGuard turing(c10::Device(at::kCUDA, 0));  // 7.0
  check_refusals({{"more shared memory than was asked for on this GPU",
                   launch(&kernel, 1, 1, 164 << 10), "invalid argument"}});
}

template <typename Function>
Function* driver(const char* name) {
  void* found = nullptr;
  cudaGetDriverEntryPointByVersion(name, &found, CUDA_VERSION, 0, nullptr);
  return reinterpret_cast<Function*>(found);
}

TEST_CASE("break: virtual memory is mapped, accessed or freed out of turn") {
  constexpr size_t kPage = 2 << 20;
  const auto create = driver<decltype(cuMemCreate)>("cuMemCreate");
  const auto release = driver<decltype(cuMemRelease)>("cuMemRelease");
  const auto reserve = driver<decltype(cuMemAddressReserve)>("cuMemAddressReserve");
  const auto free_addresses = driver<decltype(cuMemAddressFree)>("cuMemAddressFree");
  const auto map = driver<decltype(cuMemMap)>("cuMemMap");
  const auto unmap = driver<decltype(cuMemUnmap)>("cuMemUnmap");
  const auto set_access = driver<decltype(cuMemSetAccess)>("cuMemSetAccess");
  CUmemAllocationProp how{};
  how.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  how.location = {CU_MEM_LOCATION_TYPE_DEVICE, {kGpu}};
  const CUmemAccessDesc access{how.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  int value = 0;
  unsigned int flags = 0;
  CHECK(driver<decltype(cuDeviceGetAttribute)>("cuDeviceGetAttribute")(
            &value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 64) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(driver<decltype(cuDevicePrimaryCtxGetState)>("cuDevicePrimaryCtxGetState")(
            64, &flags, &value) == CUDA_ERROR_INVALID_DEVICE);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  constexpr CUresult kRefused = CUDA_ERROR_INVALID_VALUE;
  CHECK(create(&handle, kPage + 1, &how, 0) == kRefused);
  CUmemAllocationProp fabric = how;
  fabric.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  CHECK(create(&handle, kPage, &fabric, 0) == CUDA_ERROR_NOT_PERMITTED);
  CHECK(reserve(&address, 1, 0, 0, 0) == kRefused);
  REQUIRE(create(&handle, kPage, &how, 0) == CUDA_SUCCESS);
  REQUIRE(reserve(&address, 2 * kPage, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(map(address + 2 * kPage, kPage, 0, handle, 0) == kRefused);
  CHECK(set_access(address, kPage, &access, 1) == kRefused);
  REQUIRE(map(address, kPage, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(map(address, kPage, 0, handle, 0) == kRefused);
  const auto clear = [&] { return cudaMemset(reinterpret_cast<void*>(address), 0, kPage); };
  CHECK(clear() == cudaErrorInvalidValue);
  REQUIRE(set_access(address, kPage, &access, 1) == CUDA_SUCCESS);
  CHECK(clear() == cudaSuccess);
  CHECK(free_addresses(address, 2 * kPage) == kRefused);
  REQUIRE(release(handle) == CUDA_SUCCESS);
  CHECK(release(handle) == kRefused);
  REQUIRE(unmap(address, kPage) == CUDA_SUCCESS);
  CHECK(unmap(address, kPage) == kRefused);
  CHECK(clear() == cudaErrorInvalidValue);
  CHECK(free_addresses(address, 2 * kPage) == CUDA_SUCCESS);
  cudaGetLastError();
}

}  // namespace fsdp::refusals_test
