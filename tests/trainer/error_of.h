#pragma once

#include <c10/util/Exception.h>

#include <string>

// Returns the message of the error of libtorch that `call` ends with; empty if there is none.
template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

// For CHECK_THAT, after <catch2/catch.hpp>. Says that a call with tensors in host memory fails
// where it asks CUDA for a device.
#define SAYS_THAT_THERE_IS_NO_GPU                                      \
  (Catch::Matchers::Contains("CUDA driver version is insufficient") || \
   Catch::Matchers::Contains("no CUDA-capable device"))
