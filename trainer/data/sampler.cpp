// Draws the order of rows from the seed and the epoch alone, on every platform alike.
#include "trainer/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

namespace fsdp {
namespace {

// Returns a uniform number below `bound`. The standard's distributions differ between libraries;
// its engines do not. The lowest 2^64 % bound values are drawn again, to favour no number.
uint64_t draw_below(uint64_t bound, std::mt19937_64& engine) {
  const uint64_t rejected = -bound % bound;
  uint64_t value = engine();
  while (value < rejected) value = engine();
  return value % bound;
}

}  // namespace

int64_t steps_per_epoch(int64_t rows, int64_t total_batch) {
  return std::max<int64_t>(1, rows / total_batch);
}

Sampler::Sampler(int64_t rows, int64_t total_batch, bool shuffle, int64_t seed)
    : rows_(rows), total_batch_(total_batch), shuffle_(shuffle), seed_(seed) {
  if (rows < 1 || total_batch < 1) throw std::invalid_argument("Sampler: no rows or empty batch");
}

std::vector<int64_t> Sampler::rows_of_step(int64_t step) {
  const bool leaves_rest_out = shuffle_ && rows_ >= total_batch_;
  const int64_t rows_per_epoch = leaves_rest_out ? rows_ - rows_ % total_batch_ : rows_;
  std::vector<int64_t> rows(static_cast<size_t>(total_batch_));
  for (int64_t i = 0; i < total_batch_; ++i) {
    const int64_t position = step * total_batch_ + i;
    const int64_t index = position % rows_per_epoch;
    rows[i] = shuffle_ ? permutation(position / rows_per_epoch)[index] : index;
  }
  return rows;
}

std::vector<std::vector<int64_t>> Sampler::rank_rows(int64_t step, int64_t rank, int64_t ranks,
                                                     int64_t size_per_rank, int64_t accumulation) {
  if (ranks * size_per_rank * accumulation != total_batch_) {
    throw std::invalid_argument("Sampler: the ranks' shares do not add up to the total batch");
  }
  const std::vector<int64_t> rows = rows_of_step(step);
  std::vector<std::vector<int64_t>> micro_batches;
  auto begin = rows.begin() + rank * size_per_rank * accumulation;
  for (int64_t i = 0; i < accumulation; ++i, begin += size_per_rank) {
    micro_batches.emplace_back(begin, begin + size_per_rank);
  }
  return micro_batches;
}

// Makes Fisher and Yates' shuffle with a Mersenne Twister seeded with seed and epoch.
const std::vector<int64_t>& Sampler::permutation(int64_t epoch) {
  if (epoch == permutation_epoch_) return permutation_;
  std::seed_seq seeds{seed_ & 0xffffffff, seed_ >> 32, epoch & 0xffffffff, epoch >> 32};
  std::mt19937_64 engine(seeds);
  permutation_.resize(static_cast<size_t>(rows_));
  std::iota(permutation_.begin(), permutation_.end(), 0);
  for (uint64_t i = permutation_.size(); i > 1; --i) {
    std::swap(permutation_[i - 1], permutation_[draw_below(i, engine)]);
  }
  permutation_epoch_ = epoch;
  return permutation_;
}

}  // namespace fsdp
