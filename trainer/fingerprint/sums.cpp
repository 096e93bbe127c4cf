// Sums over tensors in fp64. The CPU's order of additions does not depend on the threads.
#include "trainer/fingerprint/sums.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/TensorIterator.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <vector>

#include "contract/record/fingerprint.h"
#include "trainer/model/splitmix64.h"

namespace fsdp {
namespace {

// A prime number of words, so that no width of a matrix gives the same signs to every row.
constexpr int64_t kWords = 16381;
constexpr int64_t kWordBits = 64;
constexpr int64_t kPeriod = kWords * kWordBits;
constexpr int64_t kLanes = kProjections;
constexpr int64_t kSums = 2 + kLanes;

const std::vector<uint64_t>& sign_words() {
  static const std::vector<uint64_t> words = [] {
    std::vector<uint64_t> made;
    for (int64_t i = 0; i < kWords; ++i) made.push_back(splitmix64(0, i));
    return made;
  }();
  return words;
}

struct Sums {
  std::array<double, kLanes> sum{};
  std::array<double, kLanes> square_sum{};
  std::array<double, kLanes> signed_sum{};

  void add(double value, int64_t index, uint64_t word) {
    const int64_t lane = index % kLanes;
    sum[lane] += value;
    square_sum[lane] += value * value;
    signed_sum[lane] += (word >> (index % kWordBits) & 1) != 0 ? -value : value;
  }

  // Adds a whole word's elements. The compiler vectorizes the lanes.
  template <typename T>
  void add_word(const T* values, uint64_t word) {
    constexpr uint64_t kSign = uint64_t{1} << 63;
    for (int64_t group = 0; group < kWordBits; group += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const auto value = static_cast<double>(values[group + lane]);
        const uint64_t flip = word << (kWordBits - 1 - group - lane) & kSign;
        sum[lane] += value;
        square_sum[lane] += value * value;
        signed_sum[lane] += std::bit_cast<double>(std::bit_cast<uint64_t>(value) ^ flip);
      }
    }
  }

  template <typename T>
  void add_all(const T* values, int64_t size, int64_t begin) {
    const std::vector<uint64_t>& words = sign_words();
    for (int64_t i = 0; i < size;) {
      const int64_t index = begin + i;
      const uint64_t word = words[index / kWordBits % kWords];
      if (index % kWordBits == 0 && size - i >= kWordBits) {
        add_word(values + i, word);
        i += kWordBits;
      } else {
        add(static_cast<double>(values[i]), index, word);
        ++i;
      }
    }
  }
};

double total_of(const std::array<double, kLanes>& lanes) {
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

at::Tensor tensor_of(const std::array<double, kSums>& sums) {
  return at::tensor(at::ArrayRef<double>(sums.data(), sums.size()), at::kDouble);
}

// Calls visit(i) for i from 0 to `count` - 1, on libtorch's threads. at::parallel_for would be
// serial, because this file is compiled without OpenMP.
template <typename Visit>
void in_parallel(int64_t count, Visit&& visit) {
  at::Tensor numbers = at::empty({count}, at::kByte);
  const auto* first = numbers.const_data_ptr<uint8_t>();
  at::TensorIterator::nullary_op(numbers).for_each(
      [&](char** data, const int64_t*, int64_t size, int64_t) {
        const int64_t begin = reinterpret_cast<const uint8_t*>(data[0]) - first;
        for (int64_t i = begin; i < begin + size; ++i) visit(i);
      },
      /*grain_size=*/1);
}

// Calls visit(a pointer to the elements).
template <typename Visit>
void visit_elements(const at::Tensor& tensor, Visit&& visit) {
  AT_DISPATCH_ALL_TYPES_AND2(at::kBFloat16, at::kHalf, tensor.scalar_type(), "fingerprint",
                             [&] { visit(tensor.const_data_ptr<scalar_t>()); });
}

at::Tensor sums_on_cpu(const at::Tensor& part, int64_t begin) {
  constexpr int64_t kChunk = 1 << 16;
  const int64_t size = part.numel();
  std::vector<Sums> chunks((size + kChunk - 1) / kChunk);
  visit_elements(part, [&](const auto* values) {
    in_parallel(std::ssize(chunks), [&](int64_t i) {
      chunks[i].add_all(values + i * kChunk, std::min(kChunk, size - i * kChunk),
                        begin + i * kChunk);
    });
  });
  std::array<double, kSums> sums{};
  for (const Sums& chunk : chunks) {
    sums[0] += total_of(chunk.sum);
    sums[1] += total_of(chunk.square_sum);
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[2 + lane] += chunk.signed_sum[lane];
  }
  return tensor_of(sums);
}

// Returns the sign of each index of a period, 1 or -1; fp64, on the device.
at::Tensor make_signs(at::Device device) {
  const at::Tensor signs = at::empty({kPeriod}, at::kDouble);
  for (int64_t i = 0; i < kPeriod; ++i) {
    signs.mutable_data_ptr<double>()[i] =
        (sign_words()[i / kWordBits] >> (i % kWordBits) & 1) != 0 ? -1 : 1;
  }
  return signs.to(device);
}

const at::Tensor& signs_on(at::Device device) {
  // A rank has one device. The tensor is never freed: CUDA may be gone when the process ends.
  static const at::Tensor& signs = *new at::Tensor(make_signs(device));
  return signs;
}

// Calls visit(the elements in fp64, their signs) for parts of `part` within one period.
template <typename Visit>
void visit_periods(const at::Tensor& part, int64_t begin, Visit&& visit) {
  for (int64_t i = 0; i < part.numel();) {
    const int64_t place = (begin + i) % kPeriod;
    const int64_t size = std::min(part.numel() - i, kPeriod - place);
    visit(part.narrow(0, i, size).to(at::kDouble), signs_on(part.device()).narrow(0, place, size),
          begin + i);
    i += size;
  }
}

}  // namespace

at::Tensor sums_by_operations(const at::Tensor& part, int64_t begin) {
  at::Tensor sums = at::zeros({kSums}, part.options().dtype(at::kDouble));
  visit_periods(part, begin, [&](const at::Tensor& values, const at::Tensor& signs, int64_t first) {
    sums[0].add_(values.sum());
    sums[1].add_(values.square().sum());
    const int64_t before = first % kLanes;
    const int64_t after = (kLanes - (before + values.numel()) % kLanes) % kLanes;
    sums.narrow(0, 2, kLanes)
        .add_(at::constant_pad_nd(values * signs, {before, after}).view({-1, kLanes}).sum(0));
  });
  return sums;
}

at::Tensor sums_of(const at::Tensor& part, int64_t begin) {
  const at::Tensor flat = part.flatten();
  return flat.is_cpu() ? sums_on_cpu(flat, begin) : sums_by_operations(flat, begin);
}

at::Tensor sums_of_row(const at::Tensor& row_TD) {
  const int64_t tokens = row_TD.size(0);
  at::Tensor sums = at::zeros({kSums}, row_TD.options().dtype(at::kDouble));
  // The tokens t with t * 8 / tokens = k begin at this token.
  const auto begin_of = [&](int64_t k) { return (k * tokens + kLanes - 1) / kLanes; };
  for (int64_t k = 0; k < kLanes; ++k) {
    const int64_t begin = begin_of(k);
    const at::Tensor of_segment =
        sums_of(row_TD.narrow(0, begin, begin_of(k + 1) - begin), begin * row_TD.size(1));
    sums.narrow(0, 0, 2).add_(of_segment.narrow(0, 0, 2));
    sums[2 + k].add_(of_segment.narrow(0, 2, kLanes).sum());
  }
  return sums;
}

}  // namespace fsdp
