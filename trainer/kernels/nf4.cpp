// Quantizes to NF4 and back, with the bits of bitsandbytes on every CPU.
#include "trainer/kernels/nf4.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mean.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/system/processor.h"
#include "trainer/kernels/nf4.cuh"
#ifdef FSDP_CUDA_KERNELS
#include <c10/cuda/CUDAException.h>

#include "trainer/kernels/cuda_stream.h"
#include "trainer/kernels/float_type_of.h"
#include "trainer/kernels/nf4_kernel.h"
#endif

namespace fsdp {
namespace {

constexpr float kSmallestScale = 1e-38f;  // the smallest divisor
constexpr int64_t kBlocksOfThread = 512;

// The limits between neighbouring codes.
constexpr auto kNf4Limits = [] {
  std::array<float, 15> limits{};
  for (size_t i = 0; i < limits.size(); ++i) limits[i] = (kNf4Codes[i] + kNf4Codes[i + 1]) / 2;
  return limits;
}();
constexpr auto kMapLimits = [] {
  std::array<float, 255> limits{};
  for (size_t i = 0; i < limits.size(); ++i) {
    limits[i] = 0.5f * (kSignedDynamicMap.values[i] + kSignedDynamicMap.values[i + 1]);
  }
  return limits;
}();

using Nf4Values = std::array<float, kNf4Block>;
using Nf4Indices = std::array<int32_t, kNf4Block>;  // as wide as the values, for vectorized loops

// Returns each value's code: the number of limits below it. NaN has the last code, as in
// torch.bucketize.
Nf4Indices nf4_codes(const Nf4Values& values) {
  Nf4Indices codes{};
  for (const float limit : kNf4Limits) {
    for (size_t i = 0; i < codes.size(); ++i) codes[i] += limit >= values[i] ? 0 : 1;
  }
  return codes;
}

// Rounds to the nearest of 65,536 values in [-1, 1], as bitsandbytes does. Returns the code of the
// rounded value.
uint8_t map_code(float value) {
  constexpr int kSteps = 65535;
  const auto step = static_cast<uint16_t>(
      std::fma((std::clamp(value, -1.0f, 1.0f) + 1.0f) * 0.5f, float{kSteps}, 0.5f));
  const float nearest = -1.0f + (2.0f * static_cast<float>(step)) / kSteps;
  return static_cast<uint8_t>(std::ranges::lower_bound(kMapLimits, nearest) - kMapLimits.begin());
}

// Ignores NaN, as bitsandbytes does.
float absmax(std::span<const float> values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::fabs(value));
  return most;
}

void quantize_scales(std::span<const float> scales, std::span<uint8_t> codes, float& scale) {
  scale = absmax(scales);
  const float inverse = 1.0f / scale;
  for (size_t i = 0; i < scales.size(); ++i) {
    codes[i] = scale == 0 ? uint8_t{0} : map_code(scales[i] * inverse);
  }
}

// 16 values or indices, as one AVX-512 register has them.
using Floats [[gnu::vector_size(64)]] = float;
using Indices [[gnu::vector_size(64)]] = int32_t;

// Dequantizes blocks `begin` to `end` - 1 of a tensor. For an incomplete block it also reads some
// of the scales, which follow.
template <typename T>
[[gnu::always_inline]] inline void dequantize_blocks(const uint8_t* bytes, const Nf4Layout& layout,
                                                     int64_t begin, int64_t end, T* out) {
  Floats codes;
  std::memcpy(&codes, kNf4Codes, sizeof(codes));
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kNf4Block;
    const Floats table = codes * nf4_scale(bytes, layout, block);
    Nf4Indices indices;
    for (int64_t i = 0; i < kNf4Block / 2; ++i) {
      const uint8_t byte = bytes[first / 2 + i];
      indices[2 * i] = byte >> 4;
      indices[2 * i + 1] = byte & 15;
    }
    const bool is_whole = first + kNf4Block <= layout.numel;
    std::array<T, kNf4Block> last;
    T* values = is_whole ? out + first : last.data();
    for (int64_t i = 0; i < kNf4Block; i += 16) {
      Indices part;
      std::memcpy(&part, &indices[i], sizeof(part));
      const Floats found = __builtin_shuffle(table, part);
      for (int64_t lane = 0; lane < 16; ++lane) values[i + lane] = static_cast<T>(found[lane]);
    }
    if (!is_whole) std::copy_n(values, layout.numel - first, out + first);
  }
}

template <typename T>
void dequantize_anywhere(const uint8_t* bytes, const Nf4Layout& layout, int64_t begin, int64_t end,
                         T* out) {
  dequantize_blocks(bytes, layout, begin, end, out);
}

#ifdef __x86_64__
template <typename T>
[[gnu::target("avx512dq,avx512bw,avx512vl")]] void dequantize_with_avx512(const uint8_t* bytes,
                                                                          const Nf4Layout& layout,
                                                                          int64_t begin,
                                                                          int64_t end, T* out) {
  dequantize_blocks(bytes, layout, begin, end, out);
}
#endif

// Returns the fastest variant for this CPU. All variants give the same bits.
template <typename T>
auto fastest_here() {
#ifdef __x86_64__
  if (has_avx512()) return dequantize_with_avx512<T>;
#endif
  return dequantize_anywhere<T>;
}

}  // namespace

void Nf4Quantizer::add(std::span<const float> values) {
  const int64_t first =
      std::exchange(blocks_done_, blocks_done_ + Nf4Layout{std::ssize(values)}.blocks());
  at::Tensor scales = at::from_blob(&scales_[first], {blocks_done_ - first});
  // The iterator uses libtorch's threads. at::parallel_for would be serial, because this file is
  // compiled without OpenMP.
  at::TensorIterator::nullary_op(scales).for_each(
      [&](char** ranges, const int64_t*, int64_t size, int64_t) {
        const int64_t begin = reinterpret_cast<const float*>(ranges[0]) - scales_.data();
        for (int64_t block = begin; block < begin + size; ++block) {
          const size_t at = (block - first) * kNf4Block;
          add_block(block, values.subspan(at, std::min<size_t>(kNf4Block, values.size() - at)));
        }
      },
      kBlocksOfThread);
}

// bitsandbytes multiplies whole blocks by the inverse, and divides an incomplete last block.
void Nf4Quantizer::add_block(int64_t block, std::span<const float> values) {
  const bool is_whole = std::ssize(values) == kNf4Block;
  const float scale = absmax(values);
  const float divisor = std::max(scale, kSmallestScale);
  const float inverse = 1.0f / divisor;
  Nf4Values scaled{};
  for (size_t i = 0; i < values.size(); ++i) {
    scaled[i] = std::clamp(is_whole ? values[i] * inverse : values[i] / divisor, -1.0f, 1.0f);
  }
  const Nf4Indices codes = nf4_codes(scaled);
  uint8_t* out = bytes_.data() + block * kNf4Block / 2;
  for (size_t i = 0; i < values.size(); i += 2) {
    *out++ = static_cast<uint8_t>(codes[i] << 4 | codes[i + 1]);
  }
  scales_[block] = is_whole ? scale : divisor;
}

std::vector<uint8_t> Nf4Quantizer::finish() {
  TORCH_CHECK(blocks_done_ == layout_.blocks(), "NF4 of ", layout_.numel, " values has ",
              blocks_done_, " blocks");
  const float mean = at::from_blob(scales_.data(), {layout_.blocks()}).mean().item<float>();
  for (float& scale : scales_) scale -= mean;
  std::vector<float> scales_of_scales(static_cast<size_t>(layout_.blocks_of_scales()));
  const std::span codes = std::span(bytes_).subspan(static_cast<size_t>(layout_.scales_at()));
  for (size_t i = 0; i < scales_of_scales.size(); ++i) {
    const size_t begin = i * kNf4ScalesBlock;
    const size_t count = std::min<size_t>(kNf4ScalesBlock, scales_.size() - begin);
    quantize_scales(std::span(scales_).subspan(begin, count), codes.subspan(begin, count),
                    scales_of_scales[i]);
  }
  std::memcpy(bytes_.data() + layout_.scales_of_scales_at(), scales_of_scales.data(),
              scales_of_scales.size() * sizeof(float));
  std::memcpy(bytes_.data() + layout_.mean_at(), &mean, sizeof(mean));
  return std::move(bytes_);
}

namespace {

void dequantize_on_cpu(const at::Tensor& bytes, const Nf4Layout& layout, const at::Tensor& out) {
  const uint8_t* data = bytes.const_data_ptr<uint8_t>();
  at::Tensor scales = bytes.narrow(0, layout.scales_at(), layout.blocks());
  const auto* first_scale = reinterpret_cast<const char*>(data + layout.scales_at());
  // The iterator uses libtorch's threads, as in Nf4Quantizer::add.
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, out.scalar_type(), "dequantize_nf4", [&] {
        static const auto dequantize_range = fastest_here<scalar_t>();
        scalar_t* values = out.data_ptr<scalar_t>();
        at::TensorIterator::nullary_op(scales).for_each(
            [&](char** ranges, const int64_t*, int64_t size, int64_t) {
              const int64_t begin = ranges[0] - first_scale;
              dequantize_range(data, layout, begin, begin + size, values);
            },
            kBlocksOfThread);
      });
}

void dequantize_on_gpu([[maybe_unused]] const at::Tensor& bytes,
                       [[maybe_unused]] const at::Tensor& out) {
#ifdef FSDP_CUDA_KERNELS
  const std::optional<FloatType> type = float_type_of(out);
  TORCH_CHECK(type, "NF4 to ", out.scalar_type());
  C10_CUDA_CHECK(start_dequantize_nf4(bytes.const_data_ptr<uint8_t>(), out.numel(), out.data_ptr(),
                                      *type, stream_of(out)));
#else
  TORCH_CHECK(false, "no kernel of NF4");
#endif
}

}  // namespace

void dequantize_nf4(const at::Tensor& bytes, const at::Tensor& out) {
  const Nf4Layout layout{out.numel()};
  TORCH_CHECK(bytes.numel() == layout.bytes() && bytes.is_contiguous() && out.is_contiguous(),
              "NF4 of ", bytes.sizes(), " bytes to ", out.sizes());
  if (out.is_cpu()) return dequantize_on_cpu(bytes, layout, out);
  dequantize_on_gpu(bytes, out);
}

}  // namespace fsdp
