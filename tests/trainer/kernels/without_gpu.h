#pragma once

#include <c10/util/Exception.h>

#include <string>

// For calls with tensors in host memory, which must fail where they ask CUDA for a device.

template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

// For CHECK_THAT, after <catch2/catch.hpp>.
#define SAYS_THAT_THERE_IS_NO_GPU                                      \
  (Catch::Matchers::Contains("CUDA driver version is insufficient") || \
   Catch::Matchers::Contains("no CUDA-capable device"))
