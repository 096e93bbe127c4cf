#include "trainer/fingerprint/sums.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "contract/record/fingerprint.h"
#include "trainer/model/splitmix64.h"

namespace fsdp::sums_test {

constexpr int64_t kPeriod = 16381 * 64;

at::Tensor random(at::IntArrayRef shape) {
  at::manual_seed(1);
  return at::randn(shape);
}

double sign_of(int64_t index) {
  return (splitmix64(0, index / 64 % 16381) >> (index % 64) & 1) != 0 ? -1 : 1;
}

// Adds element after element, as contract/record/fingerprint.h says.
at::Tensor expected(const at::Tensor& flat, int64_t begin) {
  std::vector<double> sums(2 + kProjections);
  const at::Tensor values = flat.to(at::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double value = values.const_data_ptr<double>()[i];
    sums[0] += value;
    sums[1] += value * value;
    sums[2 + (begin + i) % 8] += sign_of(begin + i) * value;
  }
  return at::tensor(sums, at::kDouble);
}

void check_equal(const at::Tensor& one, const at::Tensor& other) {
  INFO(one << other);
  CHECK(at::allclose(one, other, 1e-11, 1e-9));
}

TEST_CASE("the sums of any part of a tensor are those of its elements") {
  const at::Tensor values = random({70'001});
  for (const int64_t begin : {int64_t{0}, int64_t{3}, int64_t{64}, 2 * kPeriod - 100}) {
    check_equal(sums_of(values, begin), expected(values, begin));
    check_equal(sums_by_operations(values, begin), expected(values, begin));
  }
}

TEST_CASE("the sums of a tensor's parts add up to the tensor's") {
  const at::Tensor values = random({kPeriod + 1000});
  const at::Tensor whole = sums_of(values, 0);
  for (const int64_t size : {int64_t{1}, int64_t{777}, kPeriod - 5, kPeriod + 999}) {
    const at::Tensor parts = sums_of(values.narrow(0, 0, size), 0) +
                             sums_of(values.narrow(0, size, values.numel() - size), size);
    check_equal(parts, whole);
  }
}

TEST_CASE("the sums are of every dtype that a step has") {
  for (const auto dtype : {at::kBFloat16, at::kHalf, at::kDouble, at::kByte, at::kLong}) {
    const at::Tensor values = random({1000}).mul(50).abs().to(dtype);
    check_equal(sums_of(values, 5), expected(values, 5));
  }
}

TEST_CASE("the projections of a row are of eighths of its tokens") {
  for (const int64_t tokens : {1, 5, 8, 37}) {
    const at::Tensor row_TD = random({tokens, 24});
    at::Tensor sums = at::zeros({2 + int64_t{kProjections}}, at::kDouble);
    for (int64_t t = 0; t < tokens; ++t) {
      const at::Tensor of_token = expected(row_TD[t], t * 24);
      sums.narrow(0, 0, 2).add_(of_token.narrow(0, 0, 2));
      sums[2 + t * 8 / tokens].add_(of_token.narrow(0, 2, 8).sum());
    }
    check_equal(sums_of_row(row_TD), sums);
  }
}

}  // namespace fsdp::sums_test
