#include <ATen/Context.h>

// Preloaded into a program with libtorch: a tensor that nobody has written holds NaN, or the
// largest integer, instead of what was there before. Then results that follow from such memory are
// wrong each time.
[[gnu::constructor]] static void fill_uninitialized() {
  // Without which nothing is filled.
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  at::globalContext().setDeterministicFillUninitializedMemory(true);
}
