#include "trainer/engine/engine.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

namespace fsdp {
namespace {

at::Generator generator_of(const Batch& batch) {
  return at::globalContext().defaultGenerator(batch.input_ids_BT.device());
}

// What the first module is given.
at::Tensor anchor(const Batch& batch) {
  return at::empty({0}, batch.input_ids_BT.options().dtype(at::kFloat));
}

}  // namespace

Engine::Engine(const Model& model, std::span<const Unit> units, Strategy& strategy,
               Streams& streams, const Options& options)
    : model_(model),
      units_(units),
      strategy_(strategy),
      streams_(streams),
      options_(options),
      inputs_(model.modules.size()),
      outputs_(model.modules.size()),
      random_states_(model.modules.size()) {
  options_.prefetch = std::min<int64_t>(options.prefetch, unit_count());
  int64_t block = 0;
  for (const auto& part : model.modules) {
    is_checkpointed_.push_back(options.checkpoint_every > 0 && part->is_block() &&
                               block++ % options.checkpoint_every == 0);
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

void Engine::gather_ahead(int unit, int direction) {
  for (int64_t ahead = 0; ahead <= options_.prefetch; ++ahead) {
    const int64_t next = unit + direction * ahead;
    if (next >= 0 && next < unit_count()) strategy_.gather(static_cast<int>(next));
  }
}

at::Tensor Engine::run_module(int module, int unit, const Batch& batch) {
  at::Tensor y;
  const auto forward = [&] { y = model_.modules[module]->forward(inputs_[module], batch); };
  const Buffer whole = strategy_.whole_buffer(unit);
  if (is_last_module(module) && at::GradMode::is_enabled()) {
    streams_.run(StreamId::kCompute, {.reads = {whole}, .writes = {{BufferKind::kGradient, unit}}},
                 forward);
  } else {
    streams_.run(StreamId::kCompute, {.reads = {whole}, .writes = {}}, forward);
  }
  return y;
}

at::Tensor Engine::forward(const Batch& batch) {
  at::Tensor y = anchor(batch);
  for (int u = 0; u < unit_count(); ++u) {
    const bool is_shared_unit = is_shared(model_, units_[u]);
    gather_ahead(u, +1);
    strategy_.wait_whole(u);
    // The last module writes gradients in its forward, also those of a shared unit's parameters.
    if (u + 1 == unit_count() || is_shared_unit) strategy_.attach_gradient(u);
    for (int i = units_[u].first; i <= units_[u].last; ++i) {
      inputs_[i] = y.detach().requires_grad_();
      if (is_checkpointed_[i] && model_.modules[i]->is_random()) {
        random_states_[i] = generator_of(batch).get_state();
      }
      const at::AutoGradMode keep_graph(!is_checkpointed_[i]);
      y = run_module(i, u, batch);
      if (!is_checkpointed_[i]) outputs_[i] = y;
    }
    const bool backward_begins_here = u + 1 + options_.prefetch >= unit_count();
    if (strategy_.reshard_after_forward() && !backward_begins_here && !is_shared_unit) {
      strategy_.release(u);
    }
  }
  return y.detach();
}

void Engine::backward(const Batch& batch) {
  at::Tensor gradient_y = at::ones_like(outputs_.back());
  for (int u = unit_count() - 1; u >= 0; --u) {
    gather_ahead(u, -1);
    strategy_.wait_whole(u);
    strategy_.attach_gradient(u);
    for (int i = units_[u].last; i >= units_[u].first; --i) {
      backward_module(i, u, batch, gradient_y);
    }
    strategy_.release(u);
    strategy_.reduce(u);
  }
  strategy_.finish_backward();
}

void Engine::backward_module(int module, int unit, const Batch& batch, at::Tensor& gradient_y) {
  if (is_checkpointed_[module]) recompute(module, unit, batch);
  streams_.run(
      StreamId::kCompute,
      {.reads = {strategy_.whole_buffer(unit)}, .writes = {{BufferKind::kGradient, unit}}}, [&] {
        gradient_y =
            torch::autograd::grad({outputs_[module]}, {inputs_[module]}, {gradient_y}).front();
      });
  outputs_[module].reset();
  inputs_[module].reset();
}

// With the random numbers of its forward; what comes after draws as if nothing was repeated.
void Engine::recompute(int module, int unit, const Batch& batch) {
  if (!model_.modules[module]->is_random()) {
    outputs_[module] = run_module(module, unit, batch);
    return;
  }
  at::Generator generator = generator_of(batch);
  const at::Tensor outer_state = generator.get_state();
  generator.set_state(std::exchange(random_states_[module], {}));
  outputs_[module] = run_module(module, unit, batch);
  generator.set_state(outer_state);
}

at::Tensor Engine::evaluate(const Batch& batch) {
  const at::NoGradGuard no_gradients;
  at::Tensor y = anchor(batch);
  for (int u = 0; u < unit_count(); ++u) {
    gather_ahead(u, +1);
    strategy_.wait_whole(u);
    for (int i = units_[u].first; i <= units_[u].last; ++i) {
      inputs_[i] = std::move(y);
      y = run_module(i, u, batch);
      inputs_[i].reset();
    }
    if (!is_shared(model_, units_[u])) strategy_.release(u);
  }
  for (int u = 0; u < unit_count(); ++u) {
    if (is_shared(model_, units_[u])) strategy_.release(u);
  }
  return y;
}

}  // namespace fsdp
