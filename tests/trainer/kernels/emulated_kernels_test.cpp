// Runs our own kernels on the host, with the blocks and threads of a GPU.
#include "tests/fakes/emulated_kernels.h"

#include <ATen/ATen.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <stdexcept>

#include "trainer/kernels/cross_entropy.h"
#include "trainer/kernels/nf4.cuh"
#include "trainer/kernels/nf4_kernel.h"
#include "trainer/kernels/state_block.h"
#include "trainer/kernels/swiglu.h"
#include "trainer/step/adam_kernel.h"
#include "trainer/step/optimizer.h"

namespace fsdp {
namespace {

constexpr int64_t kLarge = int64_t{1} << 32;

FloatType float_type(at::ScalarType type) {
  if (type == at::kFloat) return FloatType::kFloat32;
  return type == at::kHalf ? FloatType::kFloat16 : FloatType::kBFloat16;
}

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

}  // namespace

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

TEST_CASE("cross-entropy's kernel gives losses, gradients and tokens of fp64") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const int64_t vocabulary = GENERATE(1, 7, 512, 1001, 5000);
  const int64_t misaligned = GENERATE(0, 1, 3);
  at::manual_seed(1);
  const at::Tensor logits = rows_of(type, 3, vocabulary, misaligned);
  const at::Tensor labels = at::tensor({int64_t{0}, vocabulary / 2, vocabulary - 1});
  const at::Tensor losses = at::full({3}, -1.0f);
  const at::Tensor tokens = at::full({3}, -1, at::kLong);
  const at::Tensor wide = logits.to(at::kDouble);
  const at::Tensor expected = -wide.log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1);
  const at::Tensor gradient =
      wide.softmax(1).scatter_add(1, labels.unsqueeze(1), at::full({3, 1}, -1.0, at::kDouble));

  start_cross_entropy_evaluation(logits.data_ptr(), float_type(type), labels.data_ptr<int64_t>(),
                                 losses.data_ptr<float>(), tokens.data_ptr<int64_t>(), 3,
                                 vocabulary, nullptr);
  CHECK(at::allclose(losses.to(at::kDouble), expected, 1e-5, 1e-5));
  CHECK(at::equal(tokens, wide.argmax(1)));
  losses.fill_(-1);
  start_cross_entropy(logits.data_ptr(), float_type(type), labels.data_ptr<int64_t>(),
                      losses.data_ptr<float>(), 3, vocabulary, nullptr);
  CHECK(emulated::blocks_of_last_grid() == 3);
  CHECK(at::allclose(losses.to(at::kDouble), expected, 1e-5, 1e-5));
  CHECK(at::allclose(logits.to(at::kDouble), gradient, rounding_of(type), 1e-6));
}

TEST_CASE("SwiGLU's kernel gives gradients of fp64") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kHalf, at::kBFloat16);
  const int64_t width = GENERATE(1, 8, 77, 344);
  const int64_t misaligned = GENERATE(0, 1);
  at::manual_seed(1);
  const at::Tensor gate_up = rows_of(type, 5, 2 * width, misaligned);
  const at::Tensor dh = rows_of(type, 5, width, misaligned);
  const at::Tensor d_gate_up = at::zeros_like(gate_up);
  const at::Tensor gate = gate_up.narrow(1, 0, width).to(at::kDouble);
  const at::Tensor up = gate_up.narrow(1, width, width).to(at::kDouble);
  const at::Tensor sigmoid = gate.sigmoid();
  const at::Tensor silu = gate * sigmoid;
  const at::Tensor wide_dh = dh.to(at::kDouble);
  const at::Tensor gradient =
      at::cat({wide_dh * up * (sigmoid + silu * (1 - sigmoid)), wide_dh * silu}, 1);
  start_swiglu_backward(dh.data_ptr(), gate_up.data_ptr(), d_gate_up.data_ptr(), float_type(type),
                        5, width, nullptr);
  CHECK(at::allclose(dh.to(at::kDouble), silu * up, rounding_of(type), 1e-6));
  CHECK(at::allclose(d_gate_up.to(at::kDouble), gradient, rounding_of(type), 1e-6));
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

TEST_CASE("Adam's kernel steps every element once, whatever the size and alignment") {
  const bool has_narrow_parameters = GENERATE(true, false);
  const bool has_narrow_state = GENERATE(true, false);
  if (!has_narrow_parameters && !has_narrow_state) return;
  const int64_t size = GENERATE(1, 255, 4096, 4099);
  const int64_t misaligned = GENERATE(0, 1);
  const auto filled = [&](bool is_narrow, double value) {
    const at::ScalarType type = is_narrow ? at::kBFloat16 : at::kFloat;
    return at::full({size + misaligned + 1}, value, type).narrow(0, misaligned, size);
  };
  const at::Tensor parameters = filled(has_narrow_parameters, 1);
  const at::Tensor gradient = filled(has_narrow_parameters, 0.5);
  const at::Tensor first = filled(has_narrow_state, 0);
  const at::Tensor second = filled(has_narrow_state, 0);
  const at::Tensor numbers = at::tensor({1.0f, 2.0f, 1.0f});  // step, divisor, skip
  const AdamTensors tensors{.parameters = parameters.data_ptr(),
                            .gradient = gradient.data_ptr(),
                            .first_moment = first.data_ptr(),
                            .second_moment = second.data_ptr(),
                            .has_bfloat16_parameters = has_narrow_parameters,
                            .has_bfloat16_state = has_narrow_state,
                            .size = size};
  const AdamSettings settings{.learning_rate = 0.25,
                              .beta1 = 0.5,
                              .beta2 = 0.75,
                              .epsilon = 0,
                              .weight_decay = 0,
                              .is_decay_decoupled = true};
  const float* const number = numbers.data_ptr<float>();
  const AdamRounding rounding{.is_random = false, .key = 0, .first_element = 0};
  start_adam(tensors, settings, rounding, {number, number + 1, number + 2}, nullptr);
  CHECK(parameters.eq(1).all().item<bool>());  // skipped
  start_adam(tensors, settings, rounding, {number, number + 1, nullptr}, nullptr);
  // With a gradient of 0.5 / 2 the first step is the learning rate.
  CHECK(parameters.eq(0.75).all().item<bool>());
  CHECK(first.eq(0.125).all().item<bool>());
  CHECK(second.eq(0.015625).all().item<bool>());
  const int64_t after = misaligned + size;
  CHECK(parameters.as_strided({1}, {1}, after).item<double>() == 1);
  CHECK(second.as_strided({1}, {1}, after).item<double>() == 0);
}

TEST_CASE("Adam's kernel for quantized state has the bits of the optimizer on the CPU") {
  // Without fused multiply-adds libtorch rounds twice, so the bits differ.
  if (at::get_cpu_capability() == "DEFAULT") return;
  OptimizerSpec spec;
  spec.kind = GENERATE(OptimizerKind::kAdamW, OptimizerKind::kAdam);
  spec.weight_decay = 0.1;
  spec.state_dtype = StateDtype::kInt8;
  spec.rounding = GENERATE(Rounding::kNearest, Rounding::kStochastic);
  const auto dtype = GENERATE(at::kFloat, at::kBFloat16);
  // Fewer blocks of state than warps, and several for each warp.
  const int64_t size = kStateBlock * GENERATE(16, 20'000);
  CAPTURE(name_of(spec.kind), name_of(spec.rounding), dtype, size);

  const auto values = [&](double phase) {
    return (at::arange(size, at::kDouble) * 0.37 + phase).sin().pow(5).to(dtype);
  };
  const at::Tensor expected = values(0.5);
  const at::Tensor found = expected.clone();
  Optimizer optimizer(spec, {{expected, {{.parameter = "weight", .parameter_numel = size}}}},
                      /*seed=*/3, at::kCPU);
  std::vector<at::Tensor> state;  // codes and largest values of both moments
  for (const auto& [name, tensor] : optimizer.state(0)) {
    if (tensor.numel() > 0) state.push_back(tensor.clone());
  }
  const QuantizedAdamTensors tensors{
      .parameters = found.data_ptr(),
      .gradient = nullptr,
      .first_moment = {state[0].data_ptr<uint8_t>(), state[1].data_ptr<float>()},
      .second_moment = {state[2].data_ptr<uint8_t>(), state[3].data_ptr<float>()},
      .has_bfloat16_parameters = dtype == at::kBFloat16,
      .size = size};
  for (int number = 1; number <= 3; ++number) {
    const at::Tensor gradient = values(number);
    optimizer.step(0, number, expected, gradient.clone(), 0.02, {.divisor = at::full({}, 4.0f)});
    const Draws draws{.parameter_key = random_key(3, "weight"), .step = number};
    QuantizedAdamTensors of_step = tensors;
    of_step.gradient = gradient.data_ptr();
    const at::Tensor numbers = at::tensor({static_cast<float>(number), 4.0f, 1.0f});
    const float* const scalars = numbers.data_ptr<float>();
    const AdamSettings settings{.learning_rate = 0.02,
                                .beta1 = spec.beta1,
                                .beta2 = spec.beta2,
                                .epsilon = spec.epsilon,
                                .weight_decay = spec.weight_decay,
                                .is_decay_decoupled = spec.kind == OptimizerKind::kAdamW};
    const AdamRounding rounding{.is_random = spec.rounding == Rounding::kStochastic,
                                .key = draws.key(),
                                .first_element = 0};
    for (const float* skip : {scalars + 2, static_cast<const float*>(nullptr)}) {
      start_quantized_adam(of_step, settings, rounding, {scalars, scalars + 1, skip}, nullptr);
    }
    CHECK(found.equal(expected));
    size_t i = 0;
    for (const auto& [name, tensor] : optimizer.state(0)) {
      if (tensor.numel() > 0) CHECK(state[i++].equal(tensor));
    }
  }
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
                       float_type(type), nullptr);

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

}  // namespace fsdp
