#include "trainer/train/frozen_digest.h"

#include <catch2/catch.hpp>

#include "trainer/comm/mirror_group.h"

namespace fsdp::frozen_digest_test {

std::string digest_of(const std::vector<std::pair<const Parameter*, at::Tensor>>& values,
                      int64_t part) {
  FrozenDigest digest;
  for (const auto& [parameter, tensor] : values) {
    for (int64_t begin = tensor.numel(); begin > 0;) {  // from the last part to the first
      const int64_t first = std::max<int64_t>(0, begin - part);
      digest.add(*parameter, first, tensor.narrow(0, first, begin - first));
      begin = first;
    }
  }
  MirrorGroup alone(1);
  return digest.of_all(alone, /*is_counted=*/true);
}

TEST_CASE("the digest of frozen weights follows from every bit, and not from how they are divided") {
  const Parameter one({.tensors = {{"one", {1001}}}}), two({.tensors = {{"two", {1001}}}});
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16, at::kByte);
  at::manual_seed(1);
  const at::Tensor values = at::randn({1001}).mul_(50).to(dtype);
  const at::Tensor others = at::randn({1001}).mul_(50).to(dtype);
  const std::string expected = digest_of({{&one, values}, {&two, others}}, 1001);
  for (const int64_t part : {1, 2, 3, 8, 500}) {
    CHECK(digest_of({{&two, others}, {&one, values}}, part) == expected);
  }
  CHECK(digest_of({{&one, others}, {&two, values}}, 1001) != expected);
  CHECK(digest_of({{&one, values.flip(0)}, {&two, others}}, 1001) != expected);
  CHECK(digest_of({{&one, values}}, 1001) != expected);
  for (const size_t byte : {size_t{0}, size_t{7}, values.nbytes() - 1}) {
    for (const uint8_t bit : {1, 128}) {
      const at::Tensor changed = values.clone();
      static_cast<uint8_t*>(changed.data_ptr())[byte] ^= bit;
      CHECK(digest_of({{&one, changed}, {&two, others}}, 1001) != expected);
    }
  }
}

}  // namespace fsdp::frozen_digest_test
