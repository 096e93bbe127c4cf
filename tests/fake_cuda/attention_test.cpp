// libtorch refuses kernels by rules that ask the GPU. Ours choose one that it would take.
#include <ATen/ATen.h>
#include <ATen/native/transformers/cuda/sdp_utils.h>
#include <c10/core/DeviceGuard.h>

#include <catch2/catch.hpp>

#include "trainer/kernels/attention_operators.h"

namespace fsdp {
namespace {

struct Gpu {
  c10::DeviceIndex index;
  int capability_major;
};

bool takes(AttentionKernel kernel, const sdp::sdp_params& call) {
  switch (kernel) {
    case AttentionKernel::kCudaFlash:
      return sdp::can_use_flash_attention(call, /*debug=*/false);
    case AttentionKernel::kCudnn:
      return sdp::can_use_cudnn_attention(call, /*debug=*/false);
    case AttentionKernel::kEfficient:
      return sdp::can_use_mem_efficient_attention(call, /*debug=*/false);
    case AttentionKernel::kCpuFlash:
      break;
  }
  return false;
}

TEST_CASE("attention is given to kernels that libtorch lets have it") {
  int calls = 0;
  at::globalContext().lazyInitDevice(at::kCUDA);
  for (const Gpu gpu : {Gpu{1, 8}, Gpu{2, 9}}) {
    const c10::DeviceGuard guard(c10::Device(at::kCUDA, gpu.index));
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const int64_t width : {8, 16, 24, 64, 80, 96, 128, 136, 192, 256, 264}) {
        for (const int64_t length : {1, 2, 3, 64, 65, 1000}) {
          for (const auto& [key_value_heads, lengths_vary] :
               {std::pair{4, false}, {2, false}, {4, true}}) {
            CAPTURE(gpu.capability_major, dtype, width, length, key_value_heads, lengths_vary);
            const auto heads = [&](int64_t count) {
              return at::empty({2, count, length, width},
                               at::TensorOptions(dtype).device(at::kCUDA, gpu.index))
                  .requires_grad_();
            };
            const at::Tensor q = heads(4);
            RotaryTable table;
            table.lengths_vary = lengths_vary;
            const AttentionKernel kernel = choose_attention(at::kCUDA, gpu.capability_major, q,
                                                            Within(table, AttentionHeads()));
            CHECK(!(kernel == AttentionKernel::kCudnn && lengths_vary));
            const bool is_grouped = kernel != AttentionKernel::kEfficient && key_value_heads != 4;
            const at::Tensor kv =
                heads(kernel == AttentionKernel::kEfficient ? 4 : key_value_heads);
            CHECK(takes(kernel, {.query = q,
                                 .key = kv,
                                 .value = kv,
                                 .attn_mask = std::nullopt,
                                 .dropout = 0,
                                 .is_causal = true,
                                 .enable_gqa = is_grouped}));
            ++calls;
          }
        }
      }
    }
  }
  CHECK(calls == 1188);
}

}  // namespace
}  // namespace fsdp
