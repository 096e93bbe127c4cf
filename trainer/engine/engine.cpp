#include "trainer/engine/engine.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

namespace fsdp {

Engine::Engine(const Model& model, Strategy& strategy, Streams& streams, int64_t checkpoint_every)
    : model_(model),
      strategy_(strategy),
      streams_(streams),
      inputs_(model.units.size()),
      outputs_(model.units.size()) {
  int64_t block = 0;
  for (const auto& unit : model.units) {
    is_checkpointed_.push_back(checkpoint_every > 0 && unit->is_block() &&
                               block++ % checkpoint_every == 0);
  }
}

at::Tensor Engine::forward_backward(std::span<const Batch> micro_batches,
                                    const std::function<void()>& at_forward_end) {
  at::Tensor total_loss;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const bool last = i + 1 == micro_batches.size();
    strategy_.begin_micro_batch(last);
    const at::Tensor loss = forward(micro_batches[i]);
    if (last) at_forward_end();
    backward(micro_batches[i]);
    total_loss = total_loss.defined() ? total_loss + loss : loss;
  }
  return total_loss;
}

at::Tensor Engine::run_unit(int unit, const Batch& batch) {
  at::Tensor y;
  const auto forward = [&] { y = model_.units[unit]->forward(inputs_[unit], batch); };
  if (is_last(unit)) {
    streams_.run(
        StreamId::kCompute,
        {.reads = {strategy_.whole_buffer(unit)}, .writes = {{BufferKind::kGradient, unit}}},
        forward);
  } else {
    streams_.run(StreamId::kCompute, {.reads = {strategy_.whole_buffer(unit)}, .writes = {}},
                 forward);
  }
  return y;
}

at::Tensor Engine::forward(const Batch& batch) {
  const int unit_count = static_cast<int>(model_.units.size());
  strategy_.gather(0);
  at::Tensor y = at::empty({0}, batch.input_ids_BT.options().dtype(at::kFloat));
  for (int i = 0; i < unit_count; ++i) {
    if (!is_last(i)) strategy_.gather(i + 1);
    strategy_.wait_whole(i);
    // The last unit writes gradients in its forward, also those of a shared unit's parameters.
    if (is_last(i) || model_.units[i]->is_shared()) strategy_.attach_gradient(i);
    inputs_[i] = y.detach().requires_grad_();
    {
      const at::AutoGradMode keep_graph(!is_checkpointed_[i]);
      y = run_unit(i, batch);
    }
    if (!is_checkpointed_[i]) outputs_[i] = y;
    // Backward begins with the last two units, so they stay whole.
    if (i + 2 < unit_count && !model_.units[i]->is_shared()) strategy_.release(i);
  }
  return y.detach();
}

void Engine::backward(const Batch& batch) {
  at::Tensor gradient_y = at::ones_like(outputs_.back());
  for (int i = static_cast<int>(model_.units.size()) - 1; i >= 0; --i) {
    if (i > 0) strategy_.gather(i - 1);
    strategy_.wait_whole(i);
    strategy_.attach_gradient(i);
    if (is_checkpointed_[i]) outputs_[i] = run_unit(i, batch);
    streams_.run(
        StreamId::kCompute,
        {.reads = {strategy_.whole_buffer(i)}, .writes = {{BufferKind::kGradient, i}}}, [&] {
          gradient_y = torch::autograd::grad({outputs_[i]}, {inputs_[i]}, {gradient_y}).front();
        });
    outputs_[i].reset();
    inputs_[i].reset();
    strategy_.release(i);
    strategy_.reduce(i);
  }
  strategy_.finish_backward();
}

}  // namespace fsdp
