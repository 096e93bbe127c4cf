#include <ATen/Context.h>

// Preloaded into a program with libtorch. An unwritten tensor then holds NaN, or the largest
// integer. Results that depend on it are wrong each time.
[[gnu::constructor]] static void fill_uninitialized() {
  // Filling needs both.
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
}
