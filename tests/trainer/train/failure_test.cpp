#include "trainer/train/failure.h"

#include <c10/util/Exception.h>

#include <catch2/catch.hpp>
#include <new>

#include "base/text/config_error.h"
#include "trainer/comm/communication_error.h"

namespace fsdp::failure_test {

template <typename Error>
ExitCode code_of(const Error& error) {
  return failure_of(std::make_exception_ptr(error)).code;
}

c10::Error torch_error(const std::string& message) { return {{__func__, __FILE__, 1}, message}; }

TEST_CASE("out of memory is known in the words of every library") {
  for (const char* words :
       {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "CUDA error: out of memory"}) {
    CAPTURE(words);
    CHECK(code_of(torch_error(words)) == ExitCode::kOutOfMemory);
  }
  for (const char* words :
       {"Failed to CUDA malloc 64 bytes", "Failed to CUDA calloc 64 bytes",
        "Failed to CUDA calloc async 64 bytes", "Failed to CUDA host alloc 64 bytes"}) {
    CAPTURE(words);
    CHECK(code_of(CommunicationError("all_reduce failed on rank 0 of 2: ncclUnhandledCudaError: "
                                     "Last error:; " +
                                     std::string(words))) == ExitCode::kOutOfMemory);
  }
  CHECK(code_of(std::bad_alloc()) == ExitCode::kOutOfMemory);
}

TEST_CASE("what has other causes is no lack of memory") {
  CHECK(code_of(torch_error("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
                            "`cublasCreate(handle)`")) == ExitCode::kRunFailed);
  CHECK(code_of(CommunicationError("ncclRemoteError")) == ExitCode::kCommunication);
  CHECK(code_of(ConfigError("", "data.train", "is in the folder 'out of memory'")) ==
        ExitCode::kBadConfiguration);
}

}  // namespace fsdp::failure_test
