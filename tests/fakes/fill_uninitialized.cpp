#include <ATen/Context.h>

// Preloaded into a program with libtorch. A new tensor then holds NaN, or the largest integer,
// until it is written. A result that depends on unwritten memory is then always wrong.
[[gnu::constructor]] static void fill_uninitialized() {
  // libtorch fills tensors only with both settings.
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
}
