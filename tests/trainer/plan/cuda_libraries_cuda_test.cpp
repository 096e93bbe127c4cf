#include <catch2/catch.hpp>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/trainer/error_of.h"
#include "trainer/backend/cuda_libraries.h"

namespace fsdp::test::cuda_libraries_cuda_test {

using Catch::Matchers::Contains;

std::string problem_of_cublas() {
  return error_of([] { begin_cublas({c10::kCUDA, 0}); });
}

TEST_CASE("cuBLAS that cannot begin lacks memory only if little is free") {
  fake_cuda::set_cublas_begins(false);
  CHECK_THAT(problem_of_cublas(),
             Contains("cuBLAS cannot begin on cuda:0: ") &&
                 Contains("CUBLAS_STATUS_NOT_INITIALIZED") &&
                 Contains("MiB are free, so the driver or the GPU does not work") &&
                 !Contains("out of memory"));
  fake_cuda::set_memory_bytes(fake_cuda::used_bytes() + (5 << 20));
  CHECK_THROWS_AS(begin_cublas({c10::kCUDA, 0}), c10::OutOfMemoryError);
  CHECK_THAT(problem_of_cublas(), Contains("out of memory, as only 5 of the GPU's ") &&
                                      Contains("CUBLAS_STATUS_NOT_INITIALIZED") &&
                                      Contains("nvidia-smi"));
  fake_cuda::set_memory_bytes(int64_t{1} << 50);
  fake_cuda::set_cublas_begins(true);
  begin_cublas({c10::kCUDA, 0});
}

}  // namespace fsdp::test::cuda_libraries_cuda_test
