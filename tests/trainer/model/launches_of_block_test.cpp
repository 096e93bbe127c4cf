// Counts launches, and bytes read and written, of a block of a 7B LLaMA on a GPU. The tensors are
// on meta. Products and attention are not counted.
#include <catch2/catch.hpp>

#include "tests/trainer/kernels/observed_calls.h"
#include "trainer/kernels/aten_kernels.h"
#ifdef FSDP_TRANSFORMER_ENGINE
#include "trainer/kernels/transformer_engine_kernels.h"
#endif
#include "trainer/model/families.h"

namespace fsdp::launches_of_block_test {

constexpr int64_t kTokensOfBlock = 2048;
constexpr int64_t kRank = 16;  // of adapters

Model model_of(Method method) {
  LoraSpec lora;
  lora.rank = kRank;
  return make_model({.num_hidden_layers = 1,
                     .hidden_size = 4096,
                     .intermediate_size = 11008,
                     .num_attention_heads = 32,
                     .num_key_value_heads = 32,
                     .vocab_size = 32000},
                    at::kFloat, method, lora);
}

// Returns the launches of a block's forward and backward. The block is the model's second module.
// Its input has a gradient, as in all blocks except the first.
std::vector<ObservedCalls::Call> launches_of_block(Kernels& kernels,
                                                   const DocumentsPtr& documents = nullptr,
                                                   Method method = Method::kFull) {
  const Model model = model_of(method);
  const auto bf16 = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  for (const auto& module : model.modules) {
    for (const ParameterPtr& parameter : module->parameters()) {
      parameter->value = at::empty(parameter->stored_shape(),
                                   parameter->is_quantized() ? bf16.dtype(at::kByte) : bf16);
      if (parameter->is_trained()) parameter->gradient.tensor = at::empty(parameter->shape(), bf16);
    }
  }
  Batch batch;
  batch.input_ids_BT =
      at::empty({1, kTokensOfBlock}, at::TensorOptions(at::kLong).device(at::kMeta));
  batch.documents = documents;
  Tape tape(Tape::Mode::kRecord);
  Activations activations;
  Pass pass{kernels, batch, tape, activations};
  model.modules[0]->forward(pass);
  model.modules[1]->forward(pass);  // makes the rotary table, which all blocks share
  activations.at(kHidden).gradient = std::make_shared<GradientBuffer>();

  const ObservedCalls calls;
  Tape block(Tape::Mode::kRecord);
  Pass block_pass{kernels, batch, block, activations};
  model.modules[1]->forward(block_pass);
  const Activation& y = activations.at(kHidden);
  y.gradient->add(at::empty(y.value.sizes(), y.value.options()));
  block.run_backward();
  return calls.launches();
}

void check_block(Kernels& kernels, size_t launches_max, int64_t kilobytes_max) {
  const auto launches = launches_of_block(kernels);
  INFO(ObservedCalls::table_of(launches, kTokensOfBlock));
  CHECK(launches.size() <= launches_max);
  const int64_t bytes_per_token = ObservedCalls::bytes_moved(launches) / kTokensOfBlock;
  CHECK(bytes_per_token <= kilobytes_max * 1000);
  // Norms, SwiGLU and rotations are counted. Each product occurs once forward and twice backward.
  CHECK(bytes_per_token > 300 * 1000);
  CHECK(ObservedCalls::count_products(launches) == 12);

  const DocumentsPtr documents = make_documents({1000, 1, 1047}, kTokensOfBlock, at::kMeta);
  const auto within_documents = launches_of_block(kernels, documents);
  CHECK(within_documents.size() == launches.size());
  CHECK(ObservedCalls::bytes_moved(within_documents) == ObservedCalls::bytes_moved(launches));
}

TEST_CASE("the default: at most 30 launches and 480 kB a token for a block of 7B") {
  if (!kHasCudaKernels) return;  // libtorch's operators
  AtenKernels kernels(at::kCUDA);
  check_block(kernels, 30, 480);
}

TEST_CASE("a frozen weight has no gradient, no copy, and one product each way") {
  AtenKernels kernels(at::kCUDA);
  const auto launches = launches_of_block(kernels, nullptr, Method::kLora);
  INFO(ObservedCalls::table_of(launches, kTokensOfBlock));
  // Seven weights are stacked to four. Forward has 4 products with them, 4 with A and 7 with B.
  // Backward has 4 with the weights, twice 7 for B and u, and twice 4 for A and the input.
  CHECK(ObservedCalls::count_products(launches) == 15 + 26);
  // A copy of the smallest weight would move 32 kB a token.
  const int64_t full = ObservedCalls::bytes_moved(launches_of_block(kernels));
  CHECK(ObservedCalls::bytes_moved(launches) <= full);
}

TEST_CASE("quantized weights are read twice, and only products read their values") {
  AtenKernels kernels(at::kMeta);
  const auto lora = launches_of_block(kernels, nullptr, Method::kLora);
  const auto qlora = launches_of_block(kernels, nullptr, Method::kQlora);
  INFO(ObservedCalls::table_of(qlora, kTokensOfBlock));
  int64_t read_bytes = 0;
  for (const ObservedCalls::Call& call : qlora) {
    if (call.name == "dequantize_nf4") read_bytes += call.read_bytes;
  }
  int64_t stored_bytes = 0;
  const Model model = model_of(Method::kQlora);
  for (const ParameterPtr& parameter : model.modules[1]->parameters()) {
    if (parameter->is_quantized()) stored_bytes += parameter->stored_numel();
  }
  CHECK(read_bytes == 2 * stored_bytes);
  CHECK(qlora.size() == lora.size() + 2 * 7);
  CHECK(ObservedCalls::count_products(qlora) == ObservedCalls::count_products(lora));
}

#if defined(FSDP_TRANSFORMER_ENGINE) && defined(FSDP_CUDA_KERNELS)
TEST_CASE("Transformer Engine: at most 32 launches and 500 kB a token for a block of 7B") {
  TransformerEngineKernels kernels;
  check_block(kernels, 32, 500);
}
#elif defined(FSDP_TRANSFORMER_ENGINE)
TEST_CASE("without nvcc, SwiGLU's backward takes 44 kB a token more") {
  TransformerEngineKernels kernels;
  check_block(kernels, 32, 506);
}
#endif

}  // namespace fsdp::launches_of_block_test
