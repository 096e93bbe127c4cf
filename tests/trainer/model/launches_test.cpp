// What a block of a 7B LLaMA costs a GPU besides its products and attention, counted on meta
// tensors: launches, and bytes that are read and written.
#include <catch2/catch.hpp>

#include "tests/trainer/model/launch_counter.h"
#include "trainer/kernels/aten_kernels.h"
#include "trainer/model/llama.h"

namespace fsdp {
namespace {

constexpr int64_t kTokensOfBlock = 2048;

// A block's launches, forward and backward; an embedding before it gives its input.
std::vector<Launch> launches_of_block(Kernels& kernels) {
  const Model model = make_llama({.num_hidden_layers = 1,
                                  .hidden_size = 4096,
                                  .intermediate_size = 11008,
                                  .num_attention_heads = 32,
                                  .num_key_value_heads = 32,
                                  .vocab_size = 32000});
  const auto bf16 = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  for (const auto& module : model.modules) {
    for (const ParameterPtr& parameter : module->parameters()) {
      parameter->value = at::empty(parameter->shape(), bf16);
      parameter->gradient.tensor = at::empty(parameter->shape(), bf16);
    }
  }
  Batch batch;
  batch.input_ids_BT = at::empty({1, kTokensOfBlock}, at::TensorOptions(at::kLong).device(at::kMeta));
  Tape tape(Tape::Mode::kRecord);
  Activations activations;
  Pass pass{kernels, batch, tape, activations};
  model.modules[0]->forward(pass);
  model.modules[1]->forward(pass);  // makes the rotary table, once for all blocks

  const LaunchCounter counter;
  Tape block(Tape::Mode::kRecord);
  Pass block_pass{kernels, batch, block, activations};
  model.modules[1]->forward(block_pass);
  const Activation& y = activations.at(kHidden);
  y.gradient->add(at::empty(y.value.sizes(), y.value.options()));
  block.run_backward();
  return counter.launches();
}

TEST_CASE("libtorch's operators: at most 55 launches and 900 kB a token for a block of 7B") {
  AtenKernels kernels(at::kCUDA);
  const std::vector<Launch> launches = launches_of_block(kernels);
  INFO(table_of(launches, kTokensOfBlock));
  CHECK(launches.size() <= 55);
  CHECK(bytes_moved(launches) <= 900 * 1000 * kTokensOfBlock);
  const auto products = std::count_if(launches.begin(), launches.end(),
                                      [](const Launch& launch) { return launch.is_product; });
  CHECK(products == 4 * 3);  // forward, and backward by input and by weight
  CHECK(bytes_moved(launches) > 300 * 1000 * kTokensOfBlock);
}

}  // namespace
}  // namespace fsdp
