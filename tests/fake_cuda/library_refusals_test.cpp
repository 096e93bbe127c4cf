// Each row breaks one rule of cuBLAS or NCCL, as an error in our code would. The fake GPU must
// refuse it as a GPU does (tests/fakes/cuda/README.md).
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <thread>

#include "tests/fake_cuda/refused_calls.h"
#include "trainer/kernels/aten_kernels.h"

namespace fsdp::library_refusals_test {

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
  check_refusals({
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
int cublasSgemmStridedBatched(void* handle, int, int, int m, int n, int k, const float*,
                              const float* a, int lda, long long, const float* b, int ldb,
                              long long, const float*, float* c, int ldc, long long, int count);
int cublasSgemv_v2(void* handle, int, int m, int n, const float*, const float* a, int lda,
                   const float* x, int step_x, const float*, float* y, int step_y);
int cublasSetMathMode(void* handle, int);
int cublasGetMathMode(void* handle, int* mode);
int cublasSetPointerMode_v2(void* handle, int);
int cublasGetPointerMode_v2(void* handle, int* mode);
int cublasLtMatmulDescCreate(void** made, int, int);
int cublasLtMatmulDescDestroy(void*);
int cublasLtMatmulDescSetAttribute(void*, int, const void* value, size_t bytes);
int cublasLtMatmulPreferenceCreate(void** made);
int cublasLtMatmulPreferenceDestroy(void*);
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void* value, size_t bytes);
int cublasLtMatrixLayoutCreate(void** made, int type, uint64_t rows, uint64_t columns, int64_t ld);
int cublasLtMatrixLayoutDestroy(void*);
int cublasLtMatrixLayoutSetAttribute(void*, int, const void* value, size_t bytes);
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* description, void* a, void* b, void* c,
                                   void* d, void* preference, int requested, void* result,
                                   int* count);
int cublasLtMatmul(void* handle, void* description, const void*, const void* a, void* layout_a,
                   const void* b, void* layout_b, const void*, const void* c, void* layout_c,
                   void* d, void* layout_d, const void*, void* workspace, size_t workspace_bytes,
                   cudaStream_t stream);
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
  CHECK(cublasSgemmStridedBatched(handle, 0, 0, 8, 8, 8, &one, data, 8, 64, data, 8, 64, &one, data,
                                  8, 64, -1) == 7);
  CHECK(cublasSgemv_v2(handle, 0, 8, 8, &one, data, 8, data, 0, &one, data, 1) == 7);
  int mode = 0;
  CHECK(cublasSetMathMode(destroyed, 0) == 1);
  CHECK(cublasGetMathMode(destroyed, &mode) == 1);
  CHECK(cublasSetPointerMode_v2(destroyed, 0) == 1);
  CHECK(cublasGetPointerMode_v2(destroyed, &mode) == 1);
  CHECK(cublasSetStream_v2(destroyed, nullptr) == 1);
  CHECK(cublasSetStream_v2(handle, destroyed_stream()) == 7);
  CHECK(cublasSetWorkspace_v2(destroyed, data, 256) == 1);
  CHECK(cublasDestroy_v2(destroyed) == 1);
  CHECK(cublasCreate_v2(nullptr) == 7);
  CHECK(cublasSetWorkspace_v2(handle, data + 1, 256) == 7);
  REQUIRE(cublasSetStream_v2(handle, stream_of(kOtherGpu)) == 0);
  CHECK(multiply(handle, 64, 64) == 13);
  REQUIRE(cublasSetStream_v2(handle, nullptr) == 0);
  const c10::DeviceGuard there(kThere);
  CHECK(multiply(handle, 64, 64) == 13);
}

TEST_CASE("break: cuBLASLt gets handles, attributes or memory that do not fit") {
  const c10::DeviceGuard guard(kHere);
  const at::Tensor x = floats({64, 64}), there = floats({64, 64}, kThere);
  float* const data = x.data_ptr<float>();
  const float one = 1;
  void *handle = nullptr, *product = nullptr, *preference = nullptr, *layout = nullptr;
  REQUIRE(cublasCreate_v2(&handle) == 0);
  REQUIRE(cublasLtMatmulDescCreate(&product, 0, 0) == 0);
  REQUIRE(cublasLtMatmulPreferenceCreate(&preference) == 0);
  REQUIRE(cublasLtMatrixLayoutCreate(&layout, 0, 64, 64, 64) == 0);
  struct Call {  // each test changes one value of a call that is right
    void *handle, *product, *layout;
    void* workspace = nullptr;
    size_t workspace_bytes = 0;
    cudaStream_t stream = nullptr;
  };
  const Call right{handle, product, layout};
  const auto multiply = [&](const Call& call) {
    return cublasLtMatmul(call.handle, call.product, &one, data, call.layout, data, layout, &one,
                          data, layout, data, layout, nullptr, call.workspace, call.workspace_bytes,
                          call.stream);
  };
  const auto with = [&](auto member, auto value) {
    Call call = right;
    call.*member = value;
    return multiply(call);
  };
  CHECK(multiply(right) == 0);
  CHECK(with(&Call::handle, product) == 1);
  CHECK(with(&Call::product, layout) == 7);
  CHECK(with(&Call::layout, product) == 7);
  CHECK(with(&Call::stream, stream_of(kOtherGpu)) == 13);
  CHECK(multiply({handle, product, layout, there.data_ptr(), 256}) == 13);

  uint64_t result[64];
  int count = 0;
  const auto choose = [&](void* from, void* preferred, int requested) {
    return cublasLtMatmulAlgoGetHeuristic(from, product, layout, layout, layout, layout, preferred,
                                          requested, result, &count);
  };
  CHECK(choose(handle, preference, 1) == 0);
  CHECK(choose(product, preference, 1) == 1);
  CHECK(choose(handle, layout, 1) == 7);
  CHECK(choose(handle, preference, 0) == 7);

  constexpr int kCount = 5, kStride = 6;
  const int64_t value = 1;
  CHECK(cublasLtMatmulDescSetAttribute(layout, 0, &value, 4) == 7);
  CHECK(cublasLtMatmulPreferenceSetAttribute(layout, 0, &value, 4) == 7);
  CHECK(cublasLtMatrixLayoutSetAttribute(product, kCount, &value, 4) == 7);
  CHECK(cublasLtMatrixLayoutSetAttribute(layout, kCount, &value, 8) == 7);
  CHECK(cublasLtMatrixLayoutSetAttribute(layout, kStride, &value, 4) == 7);
  CHECK(cublasLtMatmulDescDestroy(layout) == 7);
  CHECK(cublasLtMatmulPreferenceDestroy(layout) == 7);
  CHECK(cublasLtMatrixLayoutDestroy(product) == 7);
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
  ncclResult_t error{};
  int number = 0;
  const auto sum = [&](const at::Tensor& from, void* to, ncclComm_t group, cudaStream_t stream) {
    return [=] {
      call_nccl(ncclAllReduce(from.data_ptr(), to, 32, ncclFloat, ncclSum, group, stream));
    };
  };
  const std::string invalid = ", " + std::to_string(ncclInvalidArgument);
  const std::string usage = ", " + std::to_string(ncclInvalidUsage);
  const std::string cuda = ", " + std::to_string(ncclUnhandledCudaError);
  check_refusals({
      {"a rank that is none", [&] { begin(comm, 2, 2); }, invalid.c_str()},
      {"a type that is none",
       [&] {
         call_nccl(
             ncclAllReduce(x.data_ptr(), x.data_ptr(), 1, ncclNumTypes, ncclSum, comm, nullptr));
       },
       invalid.c_str()},
      {"an operation that is none",
       [&] {
         call_nccl(
             ncclAllReduce(x.data_ptr(), x.data_ptr(), 1, ncclFloat, ncclNumOps, comm, nullptr));
       },
       invalid.c_str()},
      {"a part of an element", sum(x, static_cast<char*>(x.data_ptr()) + 1, comm, nullptr),
       invalid.c_str()},
      {"a destroyed communicator", sum(x, x.data_ptr(), destroyed, nullptr), invalid.c_str()},
      {"destroyed twice", [&] { call_nccl(ncclCommDestroy(destroyed)); }, invalid.c_str()},
      {"destroyed and aborted", [&] { call_nccl(ncclCommAbort(destroyed)); }, invalid.c_str()},
      {"destroyed and finalized", [&] { call_nccl(ncclCommFinalize(destroyed)); }, invalid.c_str()},
      {"asked for its error", [&] { call_nccl(ncclCommGetAsyncError(destroyed, &error)); },
       invalid.c_str()},
      {"asked for its size", [&] { call_nccl(ncclCommCount(destroyed, &number)); },
       invalid.c_str()},
      {"asked for its rank", [&] { call_nccl(ncclCommUserRank(destroyed, &number)); },
       invalid.c_str()},
      {"a destroyed communicator gathers",
       [&] {
         call_nccl(ncclAllGather(x.data_ptr(), x.data_ptr(), 1, ncclFloat, destroyed, nullptr));
       },
       invalid.c_str()},
      {"a destroyed communicator scatters",
       [&] {
         call_nccl(ncclReduceScatter(x.data_ptr(), x.data_ptr(), 1, ncclFloat, ncclSum, destroyed,
                                     nullptr));
       },
       invalid.c_str()},
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

// The result of a rank that joins a communicator of two.
std::future<ncclResult_t> join(ncclUniqueId id, int rank, int gpu) {
  return std::async(std::launch::async, [=] {
    cudaSetDevice(gpu);
    ncclComm_t comm = nullptr;
    return ncclCommInitRank(&comm, 2, id, rank);
  });
}

TEST_CASE("break: two ranks have one GPU") {
  ncclUniqueId id{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::future<ncclResult_t> first = join(id, 0, kGpu);
  CHECK(join(id, 1, kGpu).get() == ncclInvalidUsage);
  CHECK(first.get() == ncclInvalidUsage);
}

// A third call that came after the others had met once waited for ever.
TEST_CASE("break: two ranks have one number") {
  ncclUniqueId id{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::array<std::future<ncclResult_t>, 2> ranks{join(id, 0, kGpu), join(id, 0, kGpu)};
  const auto is_done = [](const std::future<ncclResult_t>& rank) {
    return rank.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (std::ranges::none_of(ranks, is_done)) std::this_thread::yield();
  const size_t refused = is_done(ranks[0]) ? 0 : 1;
  REQUIRE(ranks[refused].get() == ncclInvalidUsage);
  CHECK(join(id, 1, kOtherGpu).get() == ncclSuccess);
  CHECK(ranks[1 - refused].get() == ncclSuccess);
}

}  // namespace fsdp::library_refusals_test
