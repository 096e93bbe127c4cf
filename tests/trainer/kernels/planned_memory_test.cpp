// Tests the memory of kernels on meta tensors for a planned GPU. Sizes come from libtorch's
// sources.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "trainer/kernels/aten_kernels.h"
#include "trainer/memory/counting_allocator.h"

namespace fsdp::planned_memory_test {

using Bytes = std::vector<int64_t>;

const at::TensorOptions kMetaBf16 = at::TensorOptions(at::kBFloat16).device(at::kMeta);

// The bytes that `call` allocates and releases before it returns, in order of allocation.
template <typename Call>
Bytes temporaries_of(Call&& call) {
  MetaAllocator& allocator = MetaAllocator::instance();
  allocator.install();
  struct Held {
    uintptr_t id;
    int64_t bytes;
    bool is_released = false;
  };
  std::vector<Held> all;
  allocator.set_observer([&](uintptr_t id, const CountedAllocation& allocation, bool is_release) {
    if (!is_release && allocation.bytes > 0) all.push_back({id, allocation.bytes});
    for (Held& held : all) held.is_released |= is_release && held.id == id;
  });
  [[maybe_unused]] const auto result = call();
  allocator.set_observer({});
  Bytes temporaries;
  for (const Held& held : all) {
    if (held.is_released) temporaries.push_back(held.bytes);
  }
  return temporaries;
}

// Makes libtorch add in a fixed order during its lifetime.
class Deterministic {
 public:
  Deterministic() { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false); }
  ~Deterministic() { at::globalContext().setDeterministicAlgorithms(outer_, /*warn_only=*/false); }

 private:
  bool outer_ = at::globalContext().deterministicAlgorithms();
};

Bytes temporaries_of_attention_backward(int64_t sequences, int64_t tokens,
                                        const AttentionHeads& heads, const Bytes& documents = {},
                                        at::ScalarType type = at::kBFloat16,
                                        int capability_major = kHopper) {
  AtenKernels kernels(at::kCUDA, capability_major);
  const at::TensorOptions options = kMetaBf16.dtype(type);
  const at::Tensor angles = at::empty({tokens, heads.width / 2}, kMetaBf16.dtype(at::kFloat));
  const DocumentsPtr within =
      documents.empty() ? nullptr : make_documents(documents, tokens, at::kMeta);
  const RotaryTable table = kernels.rotary_table(angles, within, at::kFloat, type);
  const at::Tensor qkv =
      at::empty({sequences * tokens, (heads.query + 2 * heads.key_value) * heads.width}, options);
  const at::Tensor dout = at::empty({sequences * tokens, heads.query * heads.width}, options);
  Kernels::Attention forward = kernels.attention(qkv, heads, table, /*for_backward=*/true);
  return temporaries_of(
      [&] { return kernels.attention_backward(dout, std::move(forward), heads, table); });
}

TEST_CASE("flash attention's backward adds dq up in fp32, in blocks of queries",
          "[not_deterministic]") {
  // Non-deterministic runs use cuDNN, which reports its memory only at run time.
  const AttentionHeads grouped = {.query = 4, .key_value = 2, .width = 40};
  const Bytes gradients = {2 * 150 * 4 * 40 * 2, 2 * 150 * 2 * 40 * 2, 2 * 150 * 2 * 40 * 2};
  CHECK(temporaries_of_attention_backward(2, 150, grouped) == gradients);

  const Deterministic deterministic;
  Bytes expected = gradients;
  expected.push_back(2 * 4 * 256 * 4);            // 150 queries are two blocks of 128
  expected.push_back(17 * 2 * 256 * 4 * 64 * 4);  // 17: 132 multiprocessors / 8 heads
  expected.insert(expected.end(), 2, 2 * 150 * 4 * 40 * 2);
  CHECK(temporaries_of_attention_backward(2, 150, grouped) == expected);
}

TEST_CASE("attention is planned as the GPU that is planned for computes it",
          "[not_deterministic]") {
  const AttentionHeads grouped = {.query = 4, .key_value = 2, .width = 40};
  const auto planned = [&](int capability_major) {
    return temporaries_of_attention_backward(2, 150, grouped, {}, at::kBFloat16, capability_major);
  };
  const Bytes hopper = planned(9);
  const Bytes ampere = planned(8);
  CHECK(ampere.size() > hopper.size());  // flash attention: dq in fp32, dk and dv per query head
  {
    const Deterministic deterministic;
    CHECK(planned(9).size() > hopper.size());
  }
  const Bytes volta = planned(7);  // the memory-efficient kernel
  CHECK(volta != ampere);
  CHECK(volta != hopper);
  CHECK(temporaries_of_attention_backward(2, 150, grouped) == hopper);
}

TEST_CASE("flash attention's backward sets documents apart by a block", "[not_deterministic]") {
  const AttentionHeads heads = {.query = 4, .key_value = 4, .width = 160};
  const Bytes documents = {100, 1, 199};
  Bytes expected(3, 300 * 4 * 160 * 2);
  expected.push_back(4 * (300 + 3 * 128) * 4);
  expected.push_back((300 + 3 * 128) * 4 * 192 * 4);
  CHECK(temporaries_of_attention_backward(1, 300, heads, documents) == expected);

  const Deterministic deterministic;
  expected.back() *= 11;  // 132 multiprocessors / 12 heads of documents
  CHECK(temporaries_of_attention_backward(1, 300, heads, documents) == expected);
}

TEST_CASE("memory-efficient attention takes expanded heads, sums of queries and dq in fp32 tiles") {
  const AttentionHeads grouped = {.query = 4, .key_value = 2, .width = 40};
  const int64_t q = 2 * 150 * 4 * 40 * 4, k = q / 2;
  CHECK(temporaries_of_attention_backward(2, 150, grouped, {}, at::kFloat) ==
        Bytes{q, q,                           // keys and values for each query head
              q, q, q,                        // the gradients
              q, 2 * 150 * 4 * 4,             // out * dout and its sums
              2 * 4 * 150 * 4,                // the sums in the order of heads
              2 * 4 * 3 * (64 * 64 + 4) * 4,  // 150 queries in tiles of 64
              k, k});                         // dk, dv

  // Tiles of 128 rows and 64 columns, as many for each document as for the longest.
  const AttentionHeads wide = {.query = 4, .key_value = 4, .width = 160};
  const int64_t x = 300 * 4 * 160 * 4;
  CHECK(temporaries_of_attention_backward(1, 300, wide, {100, 1, 199}, at::kFloat) ==
        Bytes{x, x, x, x, 300 * 4 * 4, 4 * 300 * 4, 3 * 4 * 2 * 3 * (128 * 64 + 4) * 4});
}

TEST_CASE("the weight's gradient of RMSNorm is added up in parts for many short rows") {
  const auto temporaries = [](int64_t tokens, int64_t width) {
    AtenKernels kernels(at::kCUDA);
    const at::Tensor x = at::empty({tokens, width}, kMetaBf16);
    const at::Tensor weight = at::empty({width}, kMetaBf16);
    const auto norm = kernels.rms_norm(x, weight, 1e-5);
    const at::Tensor dy = at::empty_like(x);
    GradientBuffer dweight{.tensor = at::empty({width}, kMetaBf16)}, dx;
    return temporaries_of([&] {
      kernels.rms_norm_backward(dy, x, norm.reciprocal_rms_N1, weight, &dweight, dx);
      return 0;
    });
  };
  CHECK(temporaries(65536, 64) == Bytes{64 * 2});
  CHECK(temporaries(70000, 64 * 33) == Bytes{64 * 33 * 2});  // 66 blocks of columns suffice
  CHECK(temporaries(70000, 64) == Bytes{64 * 2, 2188 * 64 * 2, 64 * 2});  // parts of 32 rows
  // 520 parts of 63 blocks of columns are at most 32,768 blocks.
  CHECK(temporaries(70000, 2000) == Bytes{2000 * 2, 520 * 2000 * 2, 2000 * 2});
}

}  // namespace fsdp::planned_memory_test
