// Runs our own kernels on the host, with the blocks and threads of a GPU.
#include "tests/fakes/emulated_kernels.h"

#include <ATen/ATen.h>
#include <sys/mman.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "trainer/kernels/cross_entropy.h"
#include "trainer/kernels/float_type_of.h"
#include "trainer/kernels/nf4.cuh"
#include "trainer/kernels/nf4_kernel.h"
#include "trainer/kernels/rotary.h"
#include "trainer/kernels/state_block.h"
#include "trainer/kernels/swiglu.h"
#include "trainer/step/adam_kernel.h"
#include "trainer/step/optimizer.h"

namespace fsdp::emulated_kernels_test {

constexpr int64_t kLarge = int64_t{1} << 32;

double rounding_of(at::ScalarType type) {
  if (type == at::kFloat) return 1e-6;
  return type == at::kHalf ? 0x1p-11 : 0x1p-8;
}

at::Tensor rows_of(at::ScalarType type, int64_t rows, int64_t width, int64_t misaligned) {
  return at::randn({rows * width + misaligned})
      .mul_(4)
      .to(type)
      .narrow(0, misaligned, rows * width)
      .view({rows, width});
}

// `bytes` zeros, which take memory only where they are written.
class SparseMemory {
 public:
  explicit SparseMemory(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::runtime_error("no address space is left");
  }
  ~SparseMemory() { munmap(data_, bytes_); }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  void* data() const { return data_; }
  // Returns a tensor of the last elements.
  at::Tensor tail(at::IntArrayRef shape, at::ScalarType type) const {
    const auto count = static_cast<size_t>(c10::multiply_integers(shape));
    return at::from_blob(static_cast<char*>(data_) + bytes_ - count * c10::elementSize(type), shape,
                         type);
  }

 private:
  size_t bytes_;
  void* data_;
};

TEST_CASE("threads that wait at different barriers are an error") {
  const auto run = [](const std::function<void()>& kernel) { emulated::run_grid(1, 64, kernel); };
  CHECK_THROWS_AS(run([] {
                    if (emulated::thread_index.x < 32) emulated::sync_threads();
                  }),
                  std::logic_error);
  int sum = 0;
  run([&] {
    emulated::sync_threads();
    sum += static_cast<int>(emulated::shuffle_xor(emulated::thread_index.x, 1));
  });
  CHECK(sum == 63 * 64 / 2);
}

// Runs both kernels over rows of logits and compares them with fp64. The logits become the
// gradient.
void check_cross_entropy(const at::Tensor& logits, const std::vector<int64_t>& labels_of_rows) {
  const at::ScalarType type = logits.scalar_type();
  const int64_t rows = logits.size(0), vocabulary = logits.size(1);
  const at::Tensor labels = at::tensor(labels_of_rows);
  const at::Tensor losses = at::full({rows}, -1.0f);
  const at::Tensor tokens = at::full({rows}, -1, at::kLong);
  const at::Tensor wide = logits.to(at::kDouble);
  const at::Tensor expected = -wide.log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1);
  const at::Tensor gradient =
      wide.softmax(1).scatter_add(1, labels.unsqueeze(1), at::full({rows, 1}, -1.0, at::kDouble));

  start_cross_entropy_evaluation(logits.data_ptr(), *float_type_of(logits),
                                 labels.data_ptr<int64_t>(), losses.data_ptr<float>(),
                                 tokens.data_ptr<int64_t>(), rows, vocabulary, nullptr);
  CHECK(at::allclose(losses.to(at::kDouble), expected, 1e-5, 1e-5));
  CHECK(at::equal(tokens, wide.argmax(1)));
  CHECK(at::equal(logits.to(at::kDouble), wide));
  losses.fill_(-1);
  start_cross_entropy(logits.data_ptr(), *float_type_of(logits), labels.data_ptr<int64_t>(),
                      losses.data_ptr<float>(), rows, vocabulary, nullptr);
  CHECK(emulated::blocks_of_last_grid() == rows);
  CHECK(at::allclose(losses.to(at::kDouble), expected, 1e-5, 1e-5));
  CHECK(at::allclose(logits.to(at::kDouble), gradient, rounding_of(type), 1e-6));
}

TEST_CASE("cross-entropy's kernel gives losses, gradients and tokens of fp64") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const int64_t vocabulary = GENERATE(1, 7, 512, 1001, 5000);
  const int64_t misaligned = GENERATE(0, 1, 3);
  at::manual_seed(1);
  check_cross_entropy(rows_of(type, 3, vocabulary, misaligned),
                      {0, vocabulary / 2, vocabulary - 1});
}

TEST_CASE("rows of logits may be extreme, and of equally likely tokens the first is taken") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const at::Tensor logits = at::zeros({7, 40}, GENERATE(at::kFloat, at::kBFloat16));
  logits[0][3] = 1e30;
  logits[0][20] = -1e30;
  logits[1].fill_(-1e30);
  logits[2].fill_(1e30);
  logits[3].narrow(0, 0, 24).fill_(-kInfinity);  // whole packs
  logits[4].fill_(-kInfinity);
  logits[4][17] = 2;
  for (const int64_t token : {21, 22, 39}) logits[5][token] = 4;
  logits[6][19] = logits[6][0] = 4;
  check_cross_entropy(logits, {3, 39, 0, 30, 17, 1, 0});
}

TEST_CASE("a logit that is no number makes the loss none") {
  const at::Tensor logits = at::zeros({3, 40}), labels = at::ones({3}, at::kLong);
  const std::array<int64_t, 3> places{0, 13, 39};
  for (int64_t row = 0; row < 3; ++row) logits[row][places[row]] = NAN;
  const at::Tensor losses = at::zeros({3});
  start_cross_entropy(logits.data_ptr(), FloatType::kFloat32, labels.data_ptr<int64_t>(),
                      losses.data_ptr<float>(), 3, 40, nullptr);
  CHECK(losses.isnan().all().item<bool>());
}

TEST_CASE("SwiGLU's kernels give values and gradients of fp64, also where exponentials overflow") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const int64_t width = GENERATE(1, 8, 77, 344);
  const int64_t misaligned = GENERATE(0, 1);
  at::manual_seed(1);
  const at::Tensor gate_up = rows_of(type, 5, 2 * width, misaligned);
  gate_up[0][0] = -1000;
  gate_up[1][0] = 1000;
  const at::Tensor dh = rows_of(type, 5, width, misaligned);
  const at::Tensor d_gate_up = at::zeros_like(gate_up);
  const at::Tensor gate = gate_up.narrow(1, 0, width).to(at::kDouble);
  const at::Tensor up = gate_up.narrow(1, width, width).to(at::kDouble);
  const at::Tensor sigmoid = gate.sigmoid();
  const at::Tensor silu = gate * sigmoid;
  const at::Tensor h = rows_of(type, 5, width, misaligned);
  start_swiglu(h.data_ptr(), gate_up.data_ptr(), *float_type_of(h), 5, width, nullptr);
  CHECK(at::allclose(h.to(at::kDouble), silu * up, rounding_of(type), 1e-6));
  const at::Tensor wide_dh = dh.to(at::kDouble);
  const at::Tensor gradient =
      at::cat({wide_dh * up * (sigmoid + silu * (1 - sigmoid)), wide_dh * silu}, 1);
  start_swiglu_backward(dh.data_ptr(), gate_up.data_ptr(), d_gate_up.data_ptr(), *float_type_of(dh),
                        5, width, nullptr);
  CHECK(at::allclose(dh.to(at::kDouble), silu * up, rounding_of(type), 1e-6));
  CHECK(at::allclose(d_gate_up.to(at::kDouble), gradient, rounding_of(type), 1e-6));
}

HeadRows head_rows(const at::Tensor& x_BTHW) {
  return {x_BTHW.data_ptr(), x_BTHW.stride(0), x_BTHW.stride(1), x_BTHW.stride(2)};
}

// Returns x [B, T, heads, W] rotated in fp64.
at::Tensor rotated(const at::Tensor& x_BTHW, const at::Tensor& cosine, const at::Tensor& sine) {
  const int64_t half = x_BTHW.size(3) / 2;
  const at::Tensor x = x_BTHW.to(at::kDouble).narrow(3, 0, half);
  const at::Tensor y = x_BTHW.to(at::kDouble).narrow(3, half, half);
  const at::Tensor c = cosine.to(at::kDouble).unsqueeze(1), s = sine.to(at::kDouble).unsqueeze(1);
  return at::cat({x * c - y * s, y * c + x * s}, 3);
}

TEST_CASE("the rotary kernel rotates queries and keys as fp64 does, and back, of any strides") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const int64_t width = GENERATE(2, 6, 16, 128);
  const int64_t misaligned = GENERATE(0, 1);
  const int64_t key_heads = GENERATE(1, 2);
  constexpr int64_t kSequences = 2, kTokens = 5, kQueryHeads = 4;
  at::manual_seed(1);
  const auto heads_of = [&](int64_t heads) {
    return rows_of(type, kSequences * kTokens, heads * width, misaligned)
        .view({kSequences, kTokens, heads, width});
  };
  const at::Tensor angles = at::rand({kTokens, width / 2}, at::kDouble).mul_(6);
  const at::Tensor cosine = angles.cos().to(type), sine = angles.sin().to(type);
  const int64_t all_heads = kQueryHeads + 2 * key_heads;
  const at::Tensor packed = heads_of(all_heads);
  const at::Tensor before = packed.clone();
  Rotation rotation{.query = head_rows(packed),
                    .key = head_rows(packed.narrow(2, kQueryHeads, key_heads)),
                    .packed = packed.data_ptr(),
                    .cosine = cosine.data_ptr(),
                    .sine = sine.data_ptr(),
                    .rows = kSequences * kTokens,
                    .tokens = kTokens,
                    .query_heads = kQueryHeads,
                    .key_value_heads = key_heads,
                    .width = width};
  start_rotation(rotation, *float_type_of(packed), nullptr);
  const int64_t rotated_heads = kQueryHeads + key_heads;
  CHECK(at::allclose(packed.narrow(2, 0, rotated_heads).to(at::kDouble),
                     rotated(before.narrow(2, 0, rotated_heads), cosine, sine), rounding_of(type),
                     1e-5));
  CHECK(at::equal(packed.narrow(2, rotated_heads, key_heads),
                  before.narrow(2, rotated_heads, key_heads)));

  const at::Tensor query = heads_of(kQueryHeads).transpose(1, 2).contiguous().transpose(1, 2);
  const at::Tensor key = heads_of(key_heads), value = heads_of(key_heads);
  const at::Tensor result = heads_of(all_heads);
  rotation.query = head_rows(query);
  rotation.key = head_rows(key);
  rotation.value = head_rows(value);
  rotation.packed = result.data_ptr();
  rotation.is_back = true;
  start_rotation(rotation, *float_type_of(packed), nullptr);
  CHECK(at::allclose(result.narrow(2, 0, kQueryHeads).to(at::kDouble),
                     rotated(query, cosine, -sine), rounding_of(type), 1e-5));
  CHECK(at::allclose(result.narrow(2, kQueryHeads, key_heads).to(at::kDouble),
                     rotated(key, cosine, -sine), rounding_of(type), 1e-5));
  CHECK(at::equal(result.narrow(2, rotated_heads, key_heads), value));
}

TEST_CASE("kernels find the last rows of more than 2^32 elements") {
  at::manual_seed(1);
  SECTION("cross-entropy") {
    constexpr int64_t kVocabulary = 32000;
    const int64_t rows = kLarge / kVocabulary + 2;
    const SparseMemory logits(rows * kVocabulary * 2);
    const at::Tensor last = logits.tail({kVocabulary}, at::kBFloat16);
    last.copy_(at::randn({kVocabulary}));
    const at::Tensor expected = last.to(at::kDouble).softmax(0);
    const at::Tensor labels = at::zeros({rows}, at::kLong);
    const at::Tensor losses = at::zeros({rows});
    emulated::run_blocks_from(rows - 1);
    start_cross_entropy(logits.data(), FloatType::kBFloat16, labels.data_ptr<int64_t>(),
                        losses.data_ptr<float>(), rows, kVocabulary, nullptr);
    CHECK(losses[rows - 1].item<double>() ==
          Approx(-expected[0].log().item<double>()).epsilon(1e-5));
    CHECK(at::allclose(last.narrow(0, 1, kVocabulary - 1).to(at::kDouble),
                       expected.narrow(0, 1, kVocabulary - 1), 0x1p-8, 1e-8));
  }
  SECTION("SwiGLU") {
    constexpr int64_t kWidth = 11008;
    constexpr int64_t kPartsOfBlock = 256 * 8;
    const int64_t rows = kLarge / kWidth + 2;
    const SparseMemory gate_up(rows * 2 * kWidth * 2);
    const SparseMemory d_gate_up(rows * 2 * kWidth * 2);
    const SparseMemory dh(rows * kWidth * 2);
    gate_up.tail({2 * kWidth}, at::kBFloat16).copy_(at::randn({2 * kWidth}));
    dh.tail({kWidth}, at::kBFloat16).fill_(1);
    const at::Tensor halves = gate_up.tail({2, kWidth}, at::kBFloat16).to(at::kDouble);
    emulated::run_blocks_from((rows - 1) * kWidth / kPartsOfBlock);
    start_swiglu_backward(dh.data(), gate_up.data(), d_gate_up.data(), FloatType::kBFloat16, rows,
                          kWidth, nullptr);
    const at::Tensor silu = at::silu(halves[0]);
    CHECK(at::allclose(dh.tail({kWidth}, at::kBFloat16).to(at::kDouble), silu * halves[1], 0x1p-8,
                       1e-6));
    CHECK(at::allclose(d_gate_up.tail({2, kWidth}, at::kBFloat16)[1].to(at::kDouble), silu, 0x1p-8,
                       1e-6));
  }
}

struct AdamCase {
  at::ScalarType parameters;
  StateDtype state;
  Rounding rounding;
};

// Returns a copy that begins `by` elements behind an aligned place, and an element behind it.
at::Tensor misaligned_copy(const at::Tensor& tensor, int64_t by) {
  const at::Tensor buffer = at::full({tensor.numel() + by + 1}, 7, tensor.options());
  return buffer.narrow(0, by, tensor.numel()).copy_(tensor);
}

bool is_element_behind_kept(const at::Tensor& copy) {
  return copy.as_strided({1}, {1}, copy.storage_offset() + copy.numel()).eq(7).item<bool>();
}

// Compares steps of `size` elements behind others of their parameter.
void check_adam(const AdamCase& given, OptimizerSpec spec, float divisor, int64_t size, int steps,
                int64_t misaligned = 0) {
  // Without fused multiply-adds libtorch rounds twice, so the bits differ.
  if (at::get_cpu_capability() == "DEFAULT") return;
  constexpr int64_t kFirstElement = 4 * kStateBlock;
  spec.state_dtype = given.state;
  spec.rounding = given.rounding;
  CAPTURE(given.parameters, given.state, name_of(given.rounding), name_of(spec.kind),
          spec.weight_decay, spec.beta1, divisor, size, misaligned);
  const auto values = [&](double phase) {
    return (at::arange(size, at::kDouble) * 0.37 + phase).sin().pow(5).to(given.parameters);
  };
  const at::Tensor expected = values(0.5);
  const at::Tensor found = misaligned_copy(expected, misaligned);
  Optimizer optimizer(spec,
                      {{expected,
                        {{.parameter = "weight",
                          .first_element = kFirstElement,
                          .parameter_numel = kFirstElement + size}}}},
                      /*seed=*/3, at::kCPU);
  std::vector<at::Tensor> state;  // of 8 bits: codes and largest values of both moments
  for (const auto& [name, tensor] : optimizer.state(0)) {
    if (tensor.numel() > 0) state.push_back(misaligned_copy(tensor, misaligned));
  }
  const AdamSettings settings{.learning_rate = 0.02,
                              .beta1 = spec.beta1,
                              .beta2 = spec.beta2,
                              .epsilon = spec.epsilon,
                              .weight_decay = spec.weight_decay,
                              .is_decay_decoupled = spec.kind == OptimizerKind::kAdamW};
  const bool has_bfloat16_parameters = given.parameters == at::kBFloat16;
  for (int number = 1; number <= steps; ++number) {
    const at::Tensor gradient = misaligned_copy(values(number), misaligned);
    optimizer.step(0, number, expected, gradient.clone(), 0.02, {.divisor = at::full({}, divisor)});
    const Draws draws{.parameter_key = random_key(3, "weight"), .step = number};
    const AdamRounding rounding{.is_random = spec.rounding == Rounding::kStochastic,
                                .key = draws.key(),
                                .first_element = kFirstElement};
    const at::Tensor numbers = at::tensor({static_cast<float>(number), divisor, 1.0f});
    const float* const scalars = numbers.data_ptr<float>();
    for (const float* skip : {scalars + 2, static_cast<const float*>(nullptr)}) {
      const AdamNumbers adam_numbers{scalars, scalars + 1, skip};
      if (given.state == StateDtype::kInt8) {
        start_quantized_adam(
            {.parameters = found.data_ptr(),
             .gradient = gradient.data_ptr(),
             .first_moment = {state[0].data_ptr<uint8_t>(), state[1].data_ptr<float>()},
             .second_moment = {state[2].data_ptr<uint8_t>(), state[3].data_ptr<float>()},
             .has_bfloat16_parameters = has_bfloat16_parameters,
             .size = size},
            settings, rounding, adam_numbers, nullptr);
      } else {
        start_adam({.parameters = found.data_ptr(),
                    .gradient = gradient.data_ptr(),
                    .first_moment = state[0].data_ptr(),
                    .second_moment = state[1].data_ptr(),
                    .has_bfloat16_parameters = has_bfloat16_parameters,
                    .has_bfloat16_state = given.state == StateDtype::kBf16,
                    .size = size},
                   settings, rounding, adam_numbers, nullptr);
      }
    }
    CHECK((found.equal(expected) && is_element_behind_kept(found)));
    size_t i = 0;
    for (const auto& [name, tensor] : optimizer.state(0)) {
      if (tensor.numel() == 0) continue;
      CHECK((state[i].equal(tensor) && is_element_behind_kept(state[i])));
      ++i;
    }
  }
}

TEST_CASE("Adam's kernels step to the bits of the optimizer on the CPU") {
  const AdamCase given = GENERATE(values<AdamCase>({
      {at::kBFloat16, StateDtype::kBf16, Rounding::kStochastic},
      {at::kBFloat16, StateDtype::kFp32, Rounding::kStochastic},
      {at::kFloat, StateDtype::kBf16, Rounding::kStochastic},
      {at::kBFloat16, StateDtype::kFp32, Rounding::kNearest},
      {at::kFloat, StateDtype::kBf16, Rounding::kNearest},
      {at::kBFloat16, StateDtype::kInt8, Rounding::kStochastic},
      {at::kFloat, StateDtype::kInt8, Rounding::kStochastic},
      {at::kBFloat16, StateDtype::kInt8, Rounding::kNearest},
      {at::kFloat, StateDtype::kInt8, Rounding::kNearest},
  }));
  OptimizerSpec spec;
  spec.kind = GENERATE(OptimizerKind::kAdamW, OptimizerKind::kAdam);
  spec.weight_decay = GENERATE(0.0, 0.1);
  spec.beta1 = GENERATE(0.9, 0.3);
  const float divisor = GENERATE(1.f, 3.7f);
  check_adam(given, spec, divisor, 16 * kStateBlock, 3);
  if (given.state == StateDtype::kInt8) return;
  for (const int64_t size : {1, 255, 4099}) check_adam(given, spec, divisor, size, 1);
  check_adam(given, spec, divisor, 4096, 1, /*misaligned=*/1);
}

TEST_CASE("Adam's kernel for state of 8 bits steps several blocks of state with each warp") {
  OptimizerSpec spec;
  spec.weight_decay = 0.1;
  check_adam({at::kBFloat16, StateDtype::kInt8, Rounding::kStochastic}, spec, 4,
             20'000 * kStateBlock, 1);
}

TEST_CASE("values of NF4 are a code times their block's scale, for any size and place", "[nf4]") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const int64_t numel = GENERATE(1, 15, 64, 65, 4096, 20'001);
  const int64_t misaligned = GENERATE(0, 1);
  const Nf4Layout layout{numel};
  at::Tensor bytes = at::randint(256, {layout.bytes()}, at::kByte);
  const auto number = [&](int64_t place) {
    return reinterpret_cast<float*>(bytes.data_ptr<uint8_t>() + place);
  };
  for (int64_t i = 0; i < layout.blocks_of_scales(); ++i) {
    number(layout.scales_of_scales_at())[i] = 0.5f + static_cast<float>(i);
  }
  *number(layout.mean_at()) = 0.25f;
  const at::Tensor out = at::full({numel + misaligned + 1}, 7, type);
  start_dequantize_nf4(bytes.const_data_ptr<uint8_t>(), numel, out[misaligned].data_ptr(),
                       *float_type_of(out), nullptr);

  const auto* stored = bytes.const_data_ptr<uint8_t>();
  at::Tensor expected = at::empty({numel}, at::kFloat);
  for (int64_t i = 0; i < numel; ++i) {
    const uint8_t code = i % 2 == 0 ? stored[i / 2] >> 4 : stored[i / 2] & 15;
    const int64_t block = i / 64;
    const float scale_of_scales = number(layout.scales_of_scales_at())[block / 256];
    const float scale =
        kSignedDynamicMap.values[stored[layout.scales_at() + block]] * scale_of_scales + 0.25f;
    expected[i] = kNf4Codes[code] * scale;
  }
  CHECK(at::equal(out.narrow(0, misaligned, numel), expected.to(type)));
  CHECK(out[numel + misaligned].item<double>() == 7);
}

}  // namespace fsdp::emulated_kernels_test
