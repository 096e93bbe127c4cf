#include "trainer/kernels/documents.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/trainer/kernels/observed_calls.h"
#include "trainer/kernels/aten_kernels.h"

namespace fsdp::documents_test {

using Catch::Matchers::Contains;
using Numbers = std::vector<int64_t>;

TEST_CASE("documents know where they begin and their tokens' places") {
  const DocumentsPtr documents = make_documents({3, 1, 4}, 4, at::kCPU);
  CHECK(documents->count() == 3);
  CHECK(documents->token_count() == 8);
  CHECK(documents->longest == 4);
  CHECK(documents->starts == Numbers{0, 3, 4, 8});
  CHECK(at::equal(documents->starts_on_device, at::tensor({0, 3, 4, 8}, at::kInt)));
  CHECK(at::equal(documents->position_ids_N, at::tensor({0, 1, 2, 0, 0, 1, 2, 3}, at::kLong)));

  const DocumentsPtr planned = make_documents({3, 1, 4}, 4, at::kMeta);
  CHECK(planned->starts == documents->starts);
  CHECK(planned->starts_on_device.is_meta());
  CHECK(planned->starts_on_device.nbytes() == documents->starts_on_device.nbytes());
  CHECK(planned->position_ids_N.is_meta());
}

TEST_CASE("documents that do not fill rows, or go on in another, are refused") {
  CHECK_THROWS_WITH(make_documents({}, 4, at::kCPU), Contains("has none"));
  CHECK_THROWS_WITH(make_documents({4, 0, 4}, 4, at::kCPU), Contains("document 1 has 0 tokens"));
  CHECK_THROWS_WITH(make_documents({4, 3, 2, 3}, 4, at::kCPU),
                    Contains("document 2 has 2 tokens, but row 1 has room for 1 of its 4"));
  CHECK_THROWS_WITH(make_documents({5, 3}, 4, at::kCPU),
                    Contains("document 0 has 5 tokens, but row 0 has room for 4"));
  CHECK_THROWS_WITH(make_documents({4, 3}, 4, at::kCPU),
                    Contains("the documents end at token 3 of row 1, which has 4"));
}

// Pads heads on the CPU, as AtenKernels does on a GPU.
class PaddingKernels : public AtenKernels {
 public:
  PaddingKernels() : AtenKernels(at::kCPU) {}
  int64_t padded_width(int64_t width, at::ScalarType) const override { return width + 6; }
};

TEST_CASE("padded heads have the same attention and the same gradients") {
  constexpr int64_t kTokens = 12;
  const AttentionHeads heads = {.query = 4, .key_value = 2, .width = 10, .window = 3};
  const auto [documents, length] = GENERATE(
      table<DocumentsPtr, int64_t>({{nullptr, 6}, {make_documents({5, 7}, 12, at::kCPU), 12}}));
  at::manual_seed(1);
  const at::Tensor qkv = at::randn({kTokens, 8 * heads.width});
  const at::Tensor dout = at::randn({kTokens, heads.query * heads.width});
  const at::Tensor angles = at::randn({length, heads.width / 2});
  const auto outputs = [&](AtenKernels&& kernels) {
    const RotaryTable table = kernels.rotary_table(angles, documents, at::kFloat, at::kFloat);
    Kernels::Attention forward = kernels.attention(qkv.clone(), heads, table, true);
    const at::Tensor out = forward.out;
    return std::vector<at::Tensor>{
        out, kernels.attention_backward(dout, std::move(forward), heads, table)};
  };
  const std::vector<at::Tensor> expected = outputs(AtenKernels(at::kCPU));
  const std::vector<at::Tensor> padded = outputs(PaddingKernels());
  CHECK(at::allclose(padded[0], expected[0], 1e-5, 1e-6));
  CHECK(at::allclose(padded[1], expected[1], 1e-5, 1e-6));
}

TEST_CASE("heads of a width that a GPU has no attention for are planned padded") {
  const auto [width, padded] = GENERATE(table<int64_t, int64_t>({{100, 104}, {200, 256}}));
  const AttentionHeads heads = {.query = 4, .key_value = 4, .width = width};
  const auto meta = at::device(at::kMeta).dtype(at::kBFloat16);
  AtenKernels kernels(at::kCUDA);
  const RotaryTable table = kernels.rotary_table(at::empty({64, width / 2}, meta.dtype(at::kFloat)),
                                                 nullptr, at::kFloat, at::kBFloat16);
  const ObservedCalls calls;
  kernels.attention(at::empty({64, 12 * width}, meta), heads, table, false);
  CHECK_THAT(calls.allocations(), Contains(Numbers{64 * 12 * padded * 2, 64 * 4 * padded * 2}));
}

}  // namespace fsdp::documents_test
