#pragma once

#include <cstdint>
#include <vector>

namespace fsdp {

// Returns the number of whole steps in one pass over the rows, at least 1.
int64_t steps_per_epoch(int64_t rows, int64_t total_batch);

// Selects the rows of a data set that a step reads. The order depends only on the seed, not on the
// number of ranks, and is the same on every platform.
//
// In stored order, step s reads rows s * total ... (s + 1) * total - 1, modulo the number of rows.
// If shuffled, each epoch has its own permutation and no row twice. The last rows of the
// permutation are left out if they do not fill a step. If a step reads more rows than the data set
// has, permutations follow without a gap.
class Sampler {
 public:
  // `rows` and `total_batch` are at least 1.
  Sampler(int64_t rows, int64_t total_batch, bool shuffle, int64_t seed);

  // Returns the total_batch rows of `step`, counted from 0.
  std::vector<int64_t> rows_of_step(int64_t step);

  // Returns the micro-batches of one rank: its contiguous share of the step's rows, in order.
  // ranks * size_per_rank * accumulation must equal total_batch.
  std::vector<std::vector<int64_t>> rank_rows(int64_t step, int64_t rank, int64_t ranks,
                                              int64_t size_per_rank, int64_t accumulation);

 private:
  const std::vector<int64_t>& permutation(int64_t epoch);

  int64_t rows_;
  int64_t total_batch_;
  bool shuffle_;
  int64_t seed_;
  int64_t permutation_epoch_ = -1;  // -1: there is no permutation_ yet
  std::vector<int64_t> permutation_;
};

}  // namespace fsdp
