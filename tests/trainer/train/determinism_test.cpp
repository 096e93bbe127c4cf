#include "trainer/train/determinism.h"

#include <ATen/Context.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "base/text/config_error.h"

namespace fsdp::determinism_test {

constexpr const char* kCublas = "CUBLAS_WORKSPACE_CONFIG";

// Sets cuBLAS's variable, or unsets it. The destructor resets all settings.
class Context {
 public:
  explicit Context(const char* cublas) {
    unsetenv(kCublas);
    if (cublas != nullptr) setenv(kCublas, cublas, 1);
  }
  ~Context() {
    unsetenv(kCublas);
    at::globalContext().setDeterministicAlgorithms(false, false);
    at::globalContext().setDeterministicCuDNN(false);
    at::globalContext().setDeterministicFillUninitializedMemory(true);
  }
};

TEST_CASE("train.deterministic reaches libtorch, cuDNN and cuBLAS") {
  const Context unset(nullptr);
  make_deterministic();
  CHECK(at::globalContext().deterministicAlgorithms());
  CHECK_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
  CHECK(at::globalContext().deterministicCuDNN());
  CHECK_FALSE(at::globalContext().benchmarkCuDNN());
  CHECK_FALSE(at::globalContext().deterministicFillUninitializedMemory());
  CHECK(std::string(std::getenv(kCublas)) == ":4096:8");
}

TEST_CASE("workspaces of cuBLAS that the user has chosen stay where they leave it no choice") {
  {
    const Context own(":16:8");
    make_deterministic();
    CHECK(std::string(std::getenv(kCublas)) == ":16:8");
  }
  const Context other(":4096:2");
  CHECK_THROWS_WITH(make_deterministic(),
                    "environment: 'CUBLAS_WORKSPACE_CONFIG': ':4096:2' lets "
                    "cuBLAS choose; train.deterministic allows :4096:8 and "
                    ":16:8; unset it for the first");
  CHECK_THROWS_AS(make_deterministic(), ConfigError);
  CHECK_FALSE(at::globalContext().deterministicAlgorithms());
}

}  // namespace fsdp::determinism_test
