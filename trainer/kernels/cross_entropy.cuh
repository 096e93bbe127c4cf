#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "trainer/kernels/host_device.h"
#include "trainer/kernels/pack.h"

// The softmax of one row of logits by several threads: each function does the work of one thread.
// It also runs on the host, where a test compares it with fp64.
//
// A logit of type `Logit` (float, or a 16-bit type that converts to and from float) is read and
// written once. Everything in between is fp32.
namespace fsdp {

// The largest logit so far, and the sum of exp(logit - largest), in one pass (Milakov and
// Gimelshein 2018). A logit may be -infinity.
struct SoftmaxSum {
  float largest = -FLT_MAX;
  float sum = 0;

  template <int kCount>
  FSDP_HOST_DEVICE void add(const float (&logits)[kCount]) {
    float now_largest = largest;
    for (int i = 0; i < kCount; ++i) now_largest = fmaxf(now_largest, logits[i]);
    sum *= expf(largest - now_largest);
    for (int i = 0; i < kCount; ++i) sum += expf(logits[i] - now_largest);
    largest = now_largest;
  }

  FSDP_HOST_DEVICE void add(const SoftmaxSum& other) {
    const float now_largest = fmaxf(largest, other.largest);
    sum = sum * expf(largest - now_largest) + other.sum * expf(other.largest - now_largest);
    largest = now_largest;
  }

  // Returns -log of the probability of `logit`.
  FSDP_HOST_DEVICE float loss(float logit) const { return logf(sum) - (logit - largest); }
  FSDP_HOST_DEVICE float probability(float logit) const {
    return expf(logit - largest) * (1 / sum);
  }
};

// The largest logit so far; the first of equal ones.
struct LargestLogit {
  float logit = -INFINITY;
  int64_t token = 0;

  FSDP_HOST_DEVICE void add(const LargestLogit& other) {
    if (other.logit > logit || (other.logit == logit && other.token < token)) *this = other;
  }
};

// Calls visit(first token, float (&logits)[n]) for each part of the row [size] that belongs to
// `thread` of `threads`. A part has n logits: one before the first multiple of 16 bytes, then 16
// bytes, and one in the rest. If visit returns true, `logits` is written back.
template <typename Logit, typename Visit>
FSDP_HOST_DEVICE void for_each_logit(Logit* row, int64_t size, int thread, int threads,
                                     Visit&& visit) {
  using LogitPack = Pack<Logit, 16 / sizeof(Logit)>;
  const int64_t misaligned = reinterpret_cast<uintptr_t>(row) % sizeof(LogitPack) / sizeof(Logit);
  const int64_t before = misaligned == 0 ? 0 : LogitPack::kCount - misaligned;
  const int64_t first = before < size ? before : size;
  const int64_t last = first + (size - first) / LogitPack::kCount * LogitPack::kCount;

  const auto visit_one = [&](int64_t token) {
    float logits[1] = {static_cast<float>(row[token])};
    if (visit(token, logits)) row[token] = static_cast<Logit>(logits[0]);
  };
  for (int64_t token = thread; token < first; token += threads) visit_one(token);
  for (int64_t token = first + int64_t{thread} * LogitPack::kCount; token < last;
       token += int64_t{threads} * LogitPack::kCount) {
    LogitPack pack = *reinterpret_cast<const LogitPack*>(row + token);
    float logits[LogitPack::kCount];
    for (int i = 0; i < LogitPack::kCount; ++i) logits[i] = static_cast<float>(pack.items[i]);
    if (visit(token, logits)) {
      for (int i = 0; i < LogitPack::kCount; ++i) pack.items[i] = static_cast<Logit>(logits[i]);
      *reinterpret_cast<LogitPack*>(row + token) = pack;
    }
  }
  for (int64_t token = last + thread; token < size; token += threads) visit_one(token);
}

template <typename Logit>
FSDP_HOST_DEVICE SoftmaxSum softmax_sum(Logit* row, int64_t size, int thread, int threads) {
  SoftmaxSum sum;
  for_each_logit(row, size, thread, threads, [&](int64_t, const auto& logits) {
    sum.add(logits);
    return false;
  });
  return sum;
}

template <typename Logit>
FSDP_HOST_DEVICE LargestLogit largest_logit(Logit* row, int64_t size, int thread, int threads) {
  LargestLogit largest;
  for_each_logit(row, size, thread, threads, [&](int64_t token, const auto& logits) {
    for (const float logit : logits) largest.add({logit, token++});
    return false;
  });
  return largest;
}

// Replaces the thread's part of the row by probabilities.
template <typename Logit>
FSDP_HOST_DEVICE void write_probabilities(Logit* row, int64_t size, int thread, int threads,
                                          const SoftmaxSum& sum) {
  for_each_logit(row, size, thread, threads, [&](int64_t, auto& logits) {
    for (float& logit : logits) logit = sum.probability(logit);
    return true;
  });
}

}  // namespace fsdp
