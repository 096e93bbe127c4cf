// cuBLAS and cuBLASLt without their headers. Products compute nothing, but their sizes, matrices
// and handles are checked.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/state.h"

namespace {

using fsdp::fake_cuda::current_device;
using fsdp::fake_cuda::device_of;

enum Status {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15,
};

// A handle or a description, until it is destroyed. A matrix's description has its layout.
struct Object {
  char kind;
  int device;
  int type = 0;
  int64_t rows = 0, columns = 0, ld = 0;
  int64_t count = 1, stride = 0;
  cudaStream_t stream = nullptr;
};

bool begins = true;
std::mutex mutex;
auto& objects = *new std::map<void*, Object>;  // outlives libtorch

Status make(void** made, Object object) {
  if (made == nullptr) return kInvalidValue;
  object.device = current_device();
  const std::lock_guard lock(mutex);
  objects[*made = new char] = object;  // never freed, so no address stands for two
  return kSuccess;
}

Object* find(void* object, char kind) {
  const std::lock_guard lock(mutex);
  const auto found = objects.find(object);
  return found == objects.end() || found->second.kind != kind ? nullptr : &found->second;
}

Status destroy(void* object, char kind, Status refusal) {
  const std::lock_guard lock(mutex);
  const auto found = objects.find(object);
  if (found == objects.end() || found->second.kind != kind) return refusal;
  objects.erase(found);
  return kSuccess;
}

// cudaDataType; 0: none that libtorch multiplies.
int64_t bytes_of(int type) {
  switch (type) {
    case 0:  // CUDA_R_32F
      return 4;
    case 1:  // CUDA_R_64F
      return 8;
    case 2:   // CUDA_R_16F
    case 14:  // CUDA_R_16BF
      return 2;
    default:
      return 0;
  }
}

struct Matrix {
  const void* data;
  int type;
  int64_t rows, columns, ld;
  int64_t stride = 0, count = 1;
};

// Columns lie behind each other, `ld` elements apart.
Status check(const Matrix& matrix, int device) {
  if (matrix.rows < 0 || matrix.columns < 0 || matrix.count < 0) return kInvalidValue;
  if (matrix.ld < std::max<int64_t>(1, matrix.rows)) return kInvalidValue;
  const int64_t item = bytes_of(matrix.type);
  if (item == 0) return kNotSupported;
  if (matrix.rows == 0 || matrix.columns == 0 || matrix.count == 0) return kSuccess;
  const int64_t elements =
      (matrix.count - 1) * matrix.stride + (matrix.columns - 1) * matrix.ld + matrix.rows;
  const bool is_aligned = reinterpret_cast<uintptr_t>(matrix.data) % item == 0;
  const bool is_there = device_of(matrix.data, static_cast<size_t>(elements * item)) == device;
  return is_aligned && is_there ? kSuccess : kExecutionFailed;
}

Status check_handle(void* handle) {
  const Object* found = find(handle, 'h');
  if (found == nullptr) return kNotInitialized;
  const bool is_here = found->device == current_device();
  return is_here && device_of(found->stream) == found->device ? kSuccess : kExecutionFailed;
}

struct Product {
  int transposes_a, transposes_b;
  int64_t m, n, k;
  const void *a, *b, *c;
  int type_a, type_b, type_c;
  int64_t lda, ldb, ldc;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0, count = 1;
};

Status multiply(void* handle, const void* alpha, const void* beta, const Product& p) {
  if (const Status status = check_handle(handle); status != kSuccess) return status;
  if (alpha == nullptr || beta == nullptr || p.m < 0 || p.n < 0 || p.k < 0) return kInvalidValue;
  const bool a = p.transposes_a != 0, b = p.transposes_b != 0;
  const int device = current_device();
  for (const Matrix& matrix :
       {Matrix{p.a, p.type_a, a ? p.k : p.m, a ? p.m : p.k, p.lda, p.stride_a, p.count},
        Matrix{p.b, p.type_b, b ? p.n : p.k, b ? p.k : p.n, p.ldb, p.stride_b, p.count},
        Matrix{p.c, p.type_c, p.m, p.n, p.ldc, p.stride_c, p.count}}) {
    if (const Status status = check(matrix, device); status != kSuccess) return status;
  }
  return kSuccess;
}

// y = A x; `a` has m rows, and x and y are vectors.
template <typename T>
Status multiply_vector(void* handle, int transposes, int m, int n, const T* alpha, const T* a,
                       int lda, const T* x, int step_x, const T* beta, T* y, int step_y) {
  if (const Status status = check_handle(handle); status != kSuccess) return status;
  if (alpha == nullptr || beta == nullptr || step_x == 0 || step_y == 0) return kInvalidValue;
  const int type = sizeof(T) == 8;
  const int64_t of_x = transposes ? m : n, of_y = transposes ? n : m;
  for (const Matrix& matrix : {Matrix{a, type, m, n, lda}, Matrix{x, type, 1, of_x, step_x},
                               Matrix{y, type, 1, of_y, step_y}}) {
    const Status status = check(matrix, current_device());
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

}  // namespace

namespace fsdp::fake_cuda {
void set_cublas_begins(bool whether) { begins = whether; }
}  // namespace fsdp::fake_cuda

extern "C" {

int cublasCreate_v2(void** handle) { return begins ? make(handle, {'h', 0}) : kNotInitialized; }
int cublasDestroy_v2(void* handle) { return destroy(handle, 'h', kNotInitialized); }

int cublasSetStream_v2(void* handle, cudaStream_t stream) {
  Object* const found = find(handle, 'h');
  if (found == nullptr) return kNotInitialized;
  if (!device_of(stream)) return kInvalidValue;
  found->stream = stream;
  return kSuccess;
}

int cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes) {
  if (find(handle, 'h') == nullptr) return kNotInitialized;
  if (bytes == 0) return kSuccess;
  const bool is_aligned = reinterpret_cast<uintptr_t>(workspace) % 256 == 0;
  return is_aligned && device_of(workspace, bytes) ? kSuccess : kInvalidValue;
}

int cublasSetMathMode(void* handle, int) { return find(handle, 'h') ? kSuccess : kNotInitialized; }
int cublasSetPointerMode_v2(void* handle, int) {
  return find(handle, 'h') ? kSuccess : kNotInitialized;
}
int cublasGetMathMode(void* handle, int* mode) {
  *mode = 0;
  return find(handle, 'h') ? kSuccess : kNotInitialized;
}
int cublasGetPointerMode_v2(void* handle, int* mode) {
  *mode = 0;
  return find(handle, 'h') ? kSuccess : kNotInitialized;
}

int cublasGemmEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha,
                 const void* a, int type_a, int lda, const void* b, int type_b, int ldb,
                 const void* beta, void* c, int type_c, int ldc, int, int) {
  return multiply(handle, alpha, beta,
                  {ta, tb, m, n, k, a, b, c, type_a, type_b, type_c, lda, ldb, ldc});
}

int cublasSgemmEx(void* handle, int ta, int tb, int m, int n, int k, const float* alpha,
                  const void* a, int type_a, int lda, const void* b, int type_b, int ldb,
                  const float* beta, void* c, int type_c, int ldc) {
  return multiply(handle, alpha, beta,
                  {ta, tb, m, n, k, a, b, c, type_a, type_b, type_c, lda, ldb, ldc});
}

int cublasGemmStridedBatchedEx(void* handle, int ta, int tb, int m, int n, int k, const void* alpha,
                               const void* a, int type_a, int lda, long long stride_a,
                               const void* b, int type_b, int ldb, long long stride_b,
                               const void* beta, void* c, int type_c, int ldc, long long stride_c,
                               int count, int, int) {
  return multiply(handle, alpha, beta,
                  {ta, tb, m, n, k, a, b, c, type_a, type_b, type_c, lda, ldb, ldc, stride_a,
                   stride_b, stride_c, count});
}

#define GEMM(letter, T, type)                                                                     \
  int cublas##letter##gemm_v2(void* handle, int ta, int tb, int m, int n, int k, const T* alpha,  \
                              const T* a, int lda, const T* b, int ldb, const T* beta, T* c,      \
                              int ldc) {                                                          \
    return multiply(handle, alpha, beta,                                                          \
                    {ta, tb, m, n, k, a, b, c, type, type, type, lda, ldb, ldc});                 \
  }                                                                                               \
  int cublas##letter##gemmStridedBatched(void* handle, int ta, int tb, int m, int n, int k,       \
                                         const T* alpha, const T* a, int lda, long long stride_a, \
                                         const T* b, int ldb, long long stride_b, const T* beta,  \
                                         T* c, int ldc, long long stride_c, int count) {          \
    return multiply(handle, alpha, beta,                                                          \
                    {ta, tb, m, n, k, a, b, c, type, type, type, lda, ldb, ldc, stride_a,         \
                     stride_b, stride_c, count});                                                 \
  }                                                                                               \
  int cublas##letter##gemv_v2(void* handle, int transposes, int m, int n, const T* alpha,         \
                              const T* a, int lda, const T* x, int step_x, const T* beta, T* y,   \
                              int step_y) {                                                       \
    return multiply_vector(handle, transposes, m, n, alpha, a, lda, x, step_x, beta, y, step_y);  \
  }

GEMM(S, float, 0)
GEMM(D, double, 1)

// --- cuBLASLt ---

int cublasLtMatmulDescCreate(void** made, int, int) { return make(made, {'d', 0}); }
int cublasLtMatmulDescDestroy(void* object) { return destroy(object, 'd', kInvalidValue); }
int cublasLtMatmulPreferenceCreate(void** made) { return make(made, {'p', 0}); }
int cublasLtMatmulPreferenceDestroy(void* object) { return destroy(object, 'p', kInvalidValue); }
int cublasLtMatrixLayoutDestroy(void* object) { return destroy(object, 'l', kInvalidValue); }

int cublasLtMatrixLayoutCreate(void** made, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  return make(made, {'l', 0, type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld});
}

int cublasLtMatmulDescSetAttribute(void* object, int, const void* value, size_t bytes) {
  return find(object, 'd') && value && bytes > 0 ? kSuccess : kInvalidValue;
}

int cublasLtMatmulPreferenceSetAttribute(void* object, int, const void* value, size_t bytes) {
  return find(object, 'p') && value && bytes > 0 ? kSuccess : kInvalidValue;
}

int cublasLtMatrixLayoutSetAttribute(void* object, int attribute, const void* value, size_t bytes) {
  constexpr int kCount = 5, kStride = 6;
  Object* const layout = find(object, 'l');
  if (layout == nullptr || value == nullptr || bytes == 0) return kInvalidValue;
  if (attribute == kCount) {
    if (bytes != sizeof(int32_t)) return kInvalidValue;
    layout->count = *static_cast<const int32_t*>(value);
  } else if (attribute == kStride) {
    if (bytes != sizeof(int64_t)) return kInvalidValue;
    layout->stride = *static_cast<const int64_t*>(value);
  }
  return kSuccess;
}

// Returns one algorithm, without a workspace. Result has the layout of
// cublasLtMatmulHeuristicResult_t.
int cublasLtMatmulAlgoGetHeuristic(void* handle, void* description, void* a, void* b, void* c,
                                   void* d, void* preference, int requested, void* result,
                                   int* count) {
  struct Result {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
  };
  if (find(handle, 'h') == nullptr) return kNotInitialized;
  const bool are_found = find(description, 'd') && find(a, 'l') && find(b, 'l') && find(c, 'l') &&
                         find(d, 'l') && find(preference, 'p');
  if (!are_found || requested <= 0) return kInvalidValue;
  *static_cast<Result*>(result) = {};
  *count = 1;
  return kSuccess;
}

int cublasLtMatmul(void* handle, void* description, const void* alpha, const void* a,
                   void* layout_a, const void* b, void* layout_b, const void* beta, const void* c,
                   void* layout_c, void* d, void* layout_d, const void*, void* workspace,
                   size_t workspace_bytes, cudaStream_t stream) {
  if (find(handle, 'h') == nullptr) return kNotInitialized;
  if (find(description, 'd') == nullptr || !alpha || !beta) return kInvalidValue;
  const int device = current_device();
  if (device_of(stream) != device) return kExecutionFailed;
  for (const auto& [data, object] : {std::pair{a, layout_a},
                                     {b, layout_b},
                                     {c, layout_c},
                                     {static_cast<const void*>(d), layout_d}}) {
    const Object* layout = find(object, 'l');
    if (layout == nullptr) return kInvalidValue;
    const Status status = check({data, layout->type, layout->rows, layout->columns, layout->ld,
                                 layout->stride, layout->count},
                                device);
    if (status != kSuccess) return status;
  }
  const bool has_workspace =
      workspace_bytes == 0 || device_of(workspace, workspace_bytes) == device;
  return has_workspace ? kSuccess : kExecutionFailed;
}

}  // extern "C"
