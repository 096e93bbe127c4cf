#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "trainer/kernels/cross_entropy.cuh"

// Runs the functions of the cross-entropy kernel's blocks on the host.
namespace fsdp {
namespace {

constexpr int kThreads = 7;

// Computes one row as a block of the kernel does. Returns the loss.
template <typename Logit>
float cross_entropy(Logit* row, int64_t size, int64_t label) {
  const float label_logit = static_cast<float>(row[label]);
  SoftmaxSum sum;
  for (int thread = 0; thread < kThreads; ++thread) {
    sum.add(softmax_sum(row, size, thread, kThreads));
  }
  for (int thread = 0; thread < kThreads; ++thread) {
    write_probabilities(row, size, thread, kThreads, sum);
  }
  row[label] = static_cast<Logit>(sum.probability(label_logit) - 1);
  return sum.loss(label_logit);
}

template <typename Logit>
int64_t most_likely(Logit* row, int64_t size) {
  LargestLogit largest;
  for (int thread = kThreads - 1; thread >= 0; --thread) {
    largest.add(largest_logit(row, size, thread, kThreads));
  }
  return largest.token;
}

struct Expected {
  double loss;
  at::Tensor gradient;
};

Expected expected(const at::Tensor& logits, int64_t label) {
  const at::Tensor log_probabilities = at::log_softmax(logits.to(at::kDouble), 0);
  at::Tensor gradient = log_probabilities.exp();
  gradient[label].sub_(1);
  return {-log_probabilities[label].item<double>(), gradient};
}

template <typename Logit>
void check_row(const at::Tensor& logits, int64_t label) {
  const Expected reference = expected(logits, label);
  const int64_t token = logits.argmax().item<int64_t>();
  const at::Tensor row = logits.clone();
  CHECK(most_likely(row.data_ptr<Logit>(), row.numel()) == token);
  CHECK(at::equal(row, logits));
  const float loss = cross_entropy(row.data_ptr<Logit>(), row.numel(), label);
  CHECK(loss == Approx(reference.loss).epsilon(1e-6).margin(1e-6));
  // The gradient is rounded once.
  const double unit = std::is_same_v<Logit, float>      ? 1e-6
                      : std::is_same_v<Logit, at::Half> ? 0x1p-11
                                                        : 0x1p-8;
  const double smallest = std::is_same_v<Logit, at::Half> ? 0x1p-24 : 1e-7;
  CHECK(at::allclose(row.to(at::kDouble), reference.gradient, unit, smallest));
}

}  // namespace

TEMPLATE_TEST_CASE("a row's loss and gradient are those of fp64", "[cross_entropy]", float,
                   at::Half, at::BFloat16) {
  at::manual_seed(1);
  // Rows of no, one and several packs of 16 bytes, with and without a remainder.
  const int64_t size = GENERATE(1, 3, 8, 31, 32, 1000, 1007);
  const at::TensorOptions type = c10::CppTypeToScalarType<TestType>::value;
  const at::Tensor logits = at::randn({size}).mul_(8).to(type);
  for (const int64_t label : {int64_t{0}, size / 2, size - 1}) check_row<TestType>(logits, label);
}

TEMPLATE_TEST_CASE("a row may begin anywhere", "[cross_entropy]", float, at::Half, at::BFloat16) {
  at::manual_seed(2);
  const at::TensorOptions type = c10::CppTypeToScalarType<TestType>::value;
  const at::Tensor buffer = at::randn({256}).to(type);
  const int64_t first = GENERATE(range(0, 9));
  const at::Tensor row = buffer.narrow(0, first, 101);
  const Expected reference = expected(row, 50);
  const at::Tensor before = buffer.clone();
  CHECK(cross_entropy(row.data_ptr<TestType>(), 101, 50) == Approx(reference.loss).epsilon(1e-6));
  CHECK(at::allclose(row.to(at::kDouble), reference.gradient, 0x1p-8, 1e-4));
  CHECK(at::equal(buffer.narrow(0, 0, first), before.narrow(0, 0, first)));
  CHECK(at::equal(buffer.narrow(0, first + 101, 155 - first),
                  before.narrow(0, first + 101, 155 - first)));
}

TEMPLATE_TEST_CASE("a row may hold extreme logits", "[cross_entropy]", float, at::BFloat16) {
  const at::TensorOptions type = c10::CppTypeToScalarType<TestType>::value;
  const float infinity = std::numeric_limits<float>::infinity();
  at::Tensor logits = at::zeros({40}, type);
  SECTION("far apart") {
    logits[3].fill_(1e30);
    logits[20].fill_(-1e30);
    check_row<TestType>(logits, 3);
  }
  SECTION("all far below zero") { check_row<TestType>(logits - 1e30, 39); }
  SECTION("all far above zero") { check_row<TestType>(logits + 1e30, 0); }
  SECTION("some impossible, whole packs of them too") {
    logits.narrow(0, 0, 24).fill_(-infinity);
    check_row<TestType>(logits, 30);
  }
  SECTION("all but one impossible") {
    logits.fill_(-infinity);
    logits[17].fill_(2);
    check_row<TestType>(logits, 17);
  }
}

TEST_CASE("a logit that is no number makes the loss none", "[cross_entropy]") {
  at::Tensor logits = at::zeros({40});
  logits[GENERATE(0, 13, 39)].fill_(std::numeric_limits<float>::quiet_NaN());
  CHECK(std::isnan(cross_entropy(logits.data_ptr<float>(), 40, 1)));
}

TEST_CASE("of equally likely tokens the first is taken", "[cross_entropy]") {
  at::Tensor logits = at::zeros({100});
  logits[21].fill_(4);
  logits[22].fill_(4);
  logits[90].fill_(4);
  CHECK(most_likely(logits.data_ptr<float>(), 100) == 21);
}

}  // namespace fsdp
