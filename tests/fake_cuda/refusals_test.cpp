// Each row breaks one rule of CUDA, cuBLAS or NCCL, as an error in our code would. The fake GPU
// must refuse it as a GPU does (tests/fakes/cuda/README.md).
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda.h>
#include <nccl.h>

#include <catch2/catch.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/fake_cuda/gpu_allocations.h"
#include "tests/trainer/error_of.h"
#include "trainer/comm/backends.h"
#include "trainer/kernels/aten_kernels.h"
#include "trainer/memory/cuda_memory.h"
#ifdef FSDP_CUDA_KERNELS
#include "trainer/step/adam_kernel.h"
#endif

namespace fsdp::refusals_test {

using Catch::Matchers::Contains;

struct Break {
  const char* name;
  std::function<void()> call;
  const char* refusal;
};

const at::Device kHere(at::kCUDA, kGpu);
const at::Device kThere(at::kCUDA, kOtherGpu);

at::Tensor floats(at::IntArrayRef shape, at::Device device = kHere) {
  return at::zeros(shape, at::TensorOptions(at::kFloat).device(device));
}

void check(const std::vector<Break>& breaks) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  const c10::DeviceGuard guard(kHere);
  for (const Break& each : breaks) {
    CAPTURE(each.name);
    CHECK_THAT(error_of(each.call), Contains(each.refusal));
    cudaGetLastError();
  }
}

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
  check({
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
  cudaStream_t stream = nullptr, there = nullptr;
  cudaEvent_t event = nullptr, untimed = nullptr, destroyed = nullptr;
  {
    const c10::DeviceGuard guard(kThere);
    REQUIRE(cudaStreamCreateWithPriority(&there, cudaStreamNonBlocking, 0) == cudaSuccess);
  }
  const c10::DeviceGuard guard(kHere);
  REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming) == cudaSuccess);
  REQUIRE(cudaEventCreate(&destroyed) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  REQUIRE(cudaEventDestroy(destroyed) == cudaSuccess);
  float time_ms = 0;
  check({
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
  check(
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
  check({
      {"a function that is no kernel", launch(&unknown, 1, 1, 0), "invalid device function"},
      {"no threads", launch(&kernel, 1, 0, 0), "invalid configuration"},
      {"too many blocks of y", launch(&kernel, dim3(1, 65536), 1, 0), "invalid configuration"},
      {"too many threads", launch(&kernel, 1, dim3(512, 4), 0), "invalid configuration"},
      {"too many threads of z", launch(&kernel, 1, dim3(1, 1, 65), 0), "invalid configuration"},
      {"shared memory without asking", launch(&kernel, 1, 1, 49 << 10), "invalid argument"},
      {"more shared memory than 8.0 has", [&] { ask(164 << 10); }, "invalid argument"},
  });
  const c10::DeviceGuard guard(kHere);
  ask(163 << 10);
  CHECK(error_of(launch(&kernel, 1, 1, 163 << 10)) == "");
  const c10::DeviceGuard turing(c10::Device(at::kCUDA, 0));  // 7.0
  check({{"more shared memory than was asked for on this GPU", launch(&kernel, 1, 1, 164 << 10),
          "invalid argument"}});
}

// Tensors of memory that was not allocated stand for wrong sizes and strides.
TEST_CASE("break: a product reads or writes beyond its memory") {
  const at::Tensor x = floats({64, 64});
  const auto beyond = [&](int64_t rows) {
    return at::from_blob(x.data_ptr(), {rows, 1 << 20}, x.options());
  };
  AtenKernels kernels(at::kCUDA, kCapability / 10);
  const auto multiply = [&](const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
    return [=, &kernels] { kernels.multiply(out, a, b, /*accumulate=*/true); };
  };
  check({
      {"an input", multiply(floats({8, 64}), beyond(8), floats({1 << 20, 64})),
       "CUBLAS_STATUS_EXECUTION_FAILED"},
      {"the result", multiply(beyond(64), x, floats({64, 1 << 20})),
       "CUBLAS_STATUS_EXECUTION_FAILED"},
  });
}

extern "C" {
int cublasCreate_v2(void** handle);
int cublasDestroy_v2(void* handle);
int cublasSetStream_v2(void* handle, cudaStream_t stream);
int cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes);
int cublasSgemm_v2(void* handle, int, int, int m, int n, int k, const float*, const float* a,
                   int lda, const float* b, int ldb, const float*, float* c, int ldc);
}

TEST_CASE("break: cuBLAS gets handles, sizes or a workspace that do not fit") {
  const c10::DeviceGuard guard(kHere);
  const at::Tensor x = floats({64, 64});
  float* const data = x.data_ptr<float>();
  const float one = 1;
  void *handle = nullptr, *destroyed = nullptr;
  REQUIRE(cublasCreate_v2(&handle) == 0);
  REQUIRE(cublasCreate_v2(&destroyed) == 0);
  REQUIRE(cublasDestroy_v2(destroyed) == 0);
  const auto multiply = [&](void* with, int m, int lda) {
    return cublasSgemm_v2(with, 0, 0, m, 64, 64, &one, data, lda, data, 64, &one, data, 64);
  };
  CHECK(multiply(handle, 64, 64) == 0);
  CHECK(multiply(destroyed, 64, 64) == 1);
  CHECK(multiply(handle, -1, 64) == 7);
  CHECK(multiply(handle, 64, 63) == 7);
  CHECK(cublasDestroy_v2(destroyed) == 1);
  CHECK(cublasSetWorkspace_v2(handle, data + 1, 256) == 7);
  const c10::DeviceGuard there(kThere);
  CHECK(multiply(handle, 64, 64) == 13);
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
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  constexpr CUresult kRefused = CUDA_ERROR_INVALID_VALUE;
  CHECK(create(&handle, kPage + 1, &how, 0) == kRefused);
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

void call_nccl(ncclResult_t result) {
  TORCH_CHECK(result == ncclSuccess, ncclGetErrorString(result), ", ", static_cast<int>(result));
}

TEST_CASE("break: a communicator, its memory or its stream is not its own") {
  const c10::DeviceGuard guard(kHere);
  ncclUniqueId id{};
  ncclComm_t comm = nullptr, destroyed = nullptr;
  const auto begin = [&](ncclComm_t& made, int size, int rank) {
    ncclGetUniqueId(&id);
    call_nccl(ncclCommInitRank(&made, size, id, rank));
  };
  begin(comm, 1, 0);
  begin(destroyed, 1, 0);
  call_nccl(ncclCommDestroy(destroyed));
  const at::Tensor x = floats({64}), there = floats({64}, kThere);
  const auto sum = [&](const at::Tensor& from, void* to, ncclComm_t group, cudaStream_t stream) {
    return [=] {
      call_nccl(ncclAllReduce(from.data_ptr(), to, 32, ncclFloat, ncclSum, group, stream));
    };
  };
  const std::string invalid = ", " + std::to_string(ncclInvalidArgument);
  const std::string usage = ", " + std::to_string(ncclInvalidUsage);
  const std::string cuda = ", " + std::to_string(ncclUnhandledCudaError);
  check({
      {"a rank that is none", [&] { begin(comm, 2, 2); }, invalid.c_str()},
      {"a destroyed communicator", sum(x, x.data_ptr(), destroyed, nullptr), invalid.c_str()},
      {"destroyed twice", [&] { call_nccl(ncclCommDestroy(destroyed)); }, invalid.c_str()},
      {"memory of another GPU", sum(there, x.data_ptr(), comm, nullptr), invalid.c_str()},
      {"memory of the host", sum(at::zeros({64}), x.data_ptr(), comm, nullptr), invalid.c_str()},
      {"overlapping memory", sum(x, x.data_ptr<float>() + 1, comm, nullptr), usage.c_str()},
      {"another GPU's stream",
       sum(x, x.data_ptr(), comm, c10::cuda::getStreamFromPool(false, kOtherGpu).stream()),
       cuda.c_str()},
      {"a root that is none",
       [&] {
         call_nccl(ncclBroadcast(x.data_ptr(), x.data_ptr(), 1, ncclFloat, 1, comm, nullptr));
       },
       invalid.c_str()},
      {"a group that ends unbegun", [] { call_nccl(ncclGroupEnd()); }, usage.c_str()},
  });
}

TEST_CASE("break: two ranks have one GPU") {
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  ncclResult_t results[2] = {};
  const auto rank = [&](int number) {
    cudaSetDevice(kGpu);
    ncclComm_t comm = nullptr;
    results[number] = ncclCommInitRank(&comm, 2, id, number);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  CHECK(results[0] == ncclInvalidUsage);
  CHECK(results[1] == ncclInvalidUsage);
}

}  // namespace fsdp::refusals_test
