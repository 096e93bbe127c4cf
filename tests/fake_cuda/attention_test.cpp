// libtorch's rules for attention kernels ask the GPU. The kernel that we choose must satisfy them.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/native/transformers/cuda/sdp_utils.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/trainer/kernels/observed_calls.h"
#include "trainer/kernels/aten_kernels.h"
#include "trainer/kernels/attention_operators.h"

namespace fsdp::attention_test {

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
  setenv("FAKE_CUDA_CAPABILITY", "8.6", 1);
  at::cuda::getDeviceProperties(3);  // libtorch asks once
  unsetenv("FAKE_CUDA_CAPABILITY");
  for (const Gpu gpu : {Gpu{1, 8}, Gpu{2, 9}, Gpu{3, 8}}) {
    const c10::DeviceGuard guard(c10::Device(at::kCUDA, gpu.index));
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const int64_t unpadded : {8, 16, 24, 64, 80, 96, 128, 136, 192, 200, 224, 256, 264}) {
        const int64_t width =
            AtenKernels(at::kCUDA, gpu.capability_major).padded_width(unpadded, dtype);
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
  CHECK(calls == 2106);
}

// The kernel leaves memory unwritten above the diagonal. Nothing here can compute, so the test
// looks at the order of the operators.
TEST_CASE("a causal bias gradient is cleared above the diagonal before it is summed") {
  const auto of = [](at::IntArrayRef shape) {
    return at::empty(shape, at::TensorOptions(at::kBFloat16).device(at::kCUDA, 1));
  };
  at::globalContext().lazyInitDevice(at::kCUDA);
  const c10::DeviceGuard guard(c10::Device(at::kCUDA, 1));  // has capability 8.0
  const Kernels::BiasedAttention call = {.q_BTHW = of({2, 128, 4, 64}),
                                         .k_BSHW = of({2, 128, 4, 64}),
                                         .v_BSHW = of({2, 128, 4, 64}),
                                         .bias_HTS = of({4, 128, 128}),
                                         .key_counts_B = at::Tensor(),
                                         .is_causal = true};
  AtenKernels kernels(at::kCUDA, 8);
  const Kernels::Attention forward = kernels.biased_attention(call, /*for_backward=*/true);
  const ObservedCalls calls;
  kernels.biased_attention_backward(of({2 * 128, 4 * 64}), forward, call);
  const std::vector<std::string> names = calls.names_of_launches();
  CAPTURE(names);
  const auto sum = std::ranges::find(names, "aten::sum");
  REQUIRE(sum != names.end());
  REQUIRE(sum != names.begin());
  CHECK(*(sum - 1) == "aten::tril_");
}

}  // namespace fsdp::attention_test
