// cuBLAS and cuBLASLt without their headers. Calls ignore their arguments and just succeed.
#include <cstddef>
#include <cstdint>

#include "tests/fakes/cuda/fake_cuda.h"

static bool begins = true;

namespace fsdp::fake_cuda {
void set_cublas_begins(bool whether) { begins = whether; }
}  // namespace fsdp::fake_cuda

extern "C" {

#define SUCCEEDS(function) \
  int function() { return 0; }

SUCCEEDS(cublasDestroy_v2)
SUCCEEDS(cublasSetStream_v2)
SUCCEEDS(cublasSetWorkspace_v2)
SUCCEEDS(cublasSetMathMode)
SUCCEEDS(cublasSetPointerMode_v2)
SUCCEEDS(cublasGemmEx)
SUCCEEDS(cublasGemmStridedBatchedEx)
SUCCEEDS(cublasSgemmEx)
SUCCEEDS(cublasSgemm_v2)
SUCCEEDS(cublasSgemmStridedBatched)
SUCCEEDS(cublasSgemv_v2)
SUCCEEDS(cublasDgemm_v2)
SUCCEEDS(cublasDgemmStridedBatched)
SUCCEEDS(cublasDgemv_v2)
SUCCEEDS(cublasLtMatmul)
SUCCEEDS(cublasLtMatmulDescDestroy)
SUCCEEDS(cublasLtMatmulDescSetAttribute)
SUCCEEDS(cublasLtMatmulPreferenceDestroy)
SUCCEEDS(cublasLtMatmulPreferenceSetAttribute)
SUCCEEDS(cublasLtMatrixLayoutDestroy)
SUCCEEDS(cublasLtMatrixLayoutSetAttribute)

static char something;

static int make(void** handle) {
  *handle = &something;
  return 0;
}

int cublasCreate_v2(void** handle) { return begins ? make(handle) : 1; }  // not initialized
int cublasLtMatmulDescCreate(void** handle) { return make(handle); }
int cublasLtMatmulPreferenceCreate(void** handle) { return make(handle); }
int cublasLtMatrixLayoutCreate(void** handle) { return make(handle); }

int cublasGetMathMode(void*, int* mode) { return *mode = 0; }
int cublasGetPointerMode_v2(void*, int* mode) { return *mode = 0; }

// Returns one algorithm, without a workspace. Result has the layout of
// cublasLtMatmulHeuristicResult_t.
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int,
                                   void* result, int* count) {
  struct Result {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
  };
  *static_cast<Result*>(result) = {};
  *count = 1;
  return 0;
}

}  // extern "C"
