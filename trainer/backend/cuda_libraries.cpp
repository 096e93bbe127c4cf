// Begins cuBLAS and cuDNN while the GPU is empty. A failure says how much memory is free.
#include "trainer/backend/cuda_libraries.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string>

// Declared here as in ATen/cudnn/Handle.h, which needs cudnn.h; not every PyTorch comes with it.
struct cudnnContext;
namespace at::native {
cudnnContext* getCudnnHandle();
}

namespace fsdp {
namespace {

// Exceeds the memory that a library needs to begin.
constexpr size_t kEnoughBytes = size_t{256} << 20;

// By default, libtorch gives products of one row to cuBLASLt and keeps a workspace of 1 MiB for it.
void keep_products_in_cublas() { setenv("DISABLE_ADDMM_CUDA_LT", "1", /*overwrite=*/1); }

[[noreturn]] void fail_to_begin(const std::string& library, c10::Device device,
                                const c10::Error& error) {
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  const bool is_known = cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess;
  const std::string cause = error.what_without_backtrace();
  const std::string problem =
      library + " cannot begin on " + device.str() + ": " + cause.substr(0, cause.find('\n'));
  if (!is_known) C10_THROW_ERROR(Error, problem + "; see nvidia-smi");
  const std::string memory = std::to_string(free_bytes >> 20) + " of the GPU's " +
                             std::to_string(all_bytes >> 20) + " MiB are free";
  if (free_bytes < kEnoughBytes) {
    C10_THROW_ERROR(OutOfMemoryError, problem + "; out of memory, as only " + memory +
                                          ": see nvidia-smi for other processes on it");
  }
  C10_THROW_ERROR(Error, problem + "; " + memory +
                             ", so the driver or the GPU does not work: see nvidia-smi and "
                             "fsdp-train --self-test");
}

}  // namespace

void begin_cublas(c10::Device device) {
  keep_products_in_cublas();
  at::globalContext().lazyInitDevice(at::kCUDA);  // else libtorch's allocator refuses the device
  try {
    at::cuda::getCurrentCUDABlasHandle();
  } catch (const c10::OutOfMemoryError&) {  // for the workspace
    throw;
  } catch (const c10::Error& error) {
    fail_to_begin("cuBLAS", device, error);
  }
}

void begin_cudnn(c10::Device device) {
  try {
    at::native::getCudnnHandle();
  } catch (const c10::Error& error) {
    fail_to_begin("cuDNN", device, error);
  }
}

}  // namespace fsdp
