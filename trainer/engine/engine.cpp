// Runs modules forward and their tapes backward. No other code decides the order of a step's work.
#include "trainer/engine/engine.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

#include "trainer/memory/memory_label.h"

namespace fsdp {
namespace {

// While it exists, autograd does not record operations. PyTorch's own operators use it, too.
using WithoutAutograd = at::AutoDispatchBelowADInplaceOrView;

// Later modules have written gradients to the outputs of a module's first forward. Adds these to
// the outputs of its second forward.
void hand_over_gradients(const Activations& before, Activations& first, Activations& second) {
  for (auto& [name, activation] : second) {
    const auto input = before.find(name);
    const bool is_input = input != before.end() && input->second.gradient == activation.gradient;
    if (!activation.needs_gradient()) continue;
    GradientBuffer& of_later_readers = *first.at(name).gradient;
    if (!is_input && of_later_readers.is_written) activation.gradient->add(of_later_readers.take());
  }
}

const char* forward_name(const Tape& tape) {
  if (!tape.wants_gradients()) return "evaluation";
  if (tape.is_repeating()) return "repeated forward";
  return tape.is_recording() ? "forward" : "forward to be repeated";
}

// Turns "model.layers.3" into "model.layers.*", because layers are alike.
std::string kind_of(const std::string& module) {
  std::string kind;
  for (const char character : module) {
    const bool is_digit = character >= '0' && character <= '9';
    if (!is_digit) kind += character;
    if (is_digit && !kind.ends_with('*')) kind += '*';
  }
  return kind;
}

}  // namespace

Engine::Engine(const Model& model, std::span<const Unit> units, Strategy& strategy,
               Streams& streams, Kernels& kernels, const Options& options)
    : model_(model),
      units_(units),
      strategy_(strategy),
      streams_(streams),
      kernels_(kernels),
      options_(options),
      kept_(model.modules.size()) {
  // A larger value means the same, and loops over units stay short.
  options_.prefetch = std::min<int64_t>(options.prefetch, unit_count());
  for (const Unit& unit : units) is_trained_.push_back(is_trained(model, unit));
  first_trained_unit_ =
      static_cast<int>(std::ranges::find(is_trained_, true) - is_trained_.begin());
  int64_t block = 0;
  for (const auto& part : model.modules) {
    is_checkpointed_.push_back(options.checkpoint_every > 0 && part->is_block() &&
                               block++ % options.checkpoint_every == 0);
  }
}

at::Tensor Engine::forward_backward(std::span<const Batch> micro_batches,
                                    const std::function<void()>& at_forward_end) {
  const WithoutAutograd guard;
  at::Tensor total_loss;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const bool last = i + 1 == micro_batches.size();
    strategy_.begin_micro_batch(last);
    const at::Tensor loss = [&] {
      const MemoryScope scope(MemoryPhase::kForward);
      return forward(micro_batches[i]);
    }();
    if (last) at_forward_end();
    const MemoryScope scope(MemoryPhase::kBackward);
    backward(micro_batches[i]);
    total_loss = total_loss.defined() ? total_loss + loss : loss;
  }
  return total_loss;
}

void Engine::gather_ahead(int unit, int direction) {
  for (int64_t ahead = 0; ahead <= options_.prefetch; ++ahead) {
    const int64_t next = unit + direction * ahead;
    // Backward ends at the first trained unit, so units before it are not gathered again.
    const int first = direction > 0 ? 0 : first_trained_unit_;
    if (next >= first && next < unit_count()) strategy_.gather(static_cast<int>(next));
  }
}

void Engine::compute(int unit, bool writes_gradient, const std::function<void()>& work) {
  const Buffer whole = strategy_.whole_buffer(unit);
  if (writes_gradient && is_trained_[unit]) {
    streams_.run(StreamId::kCompute, {.reads = {whole}, .writes = {{BufferKind::kGradient, unit}}},
                 work);
  } else {
    streams_.run(StreamId::kCompute, {.reads = {whole}, .writes = {}}, work);
  }
}

Work Engine::work_of(int module, const char* pass, const Batch& batch) const {
  const Module& part = *model_.modules[module];
  int64_t numel = 0;
  for (const auto& parameter : part.parameters()) numel += parameter->stored_numel();
  std::string name = kind_of(part.name()) + '/' + std::to_string(numel) + ' ' + pass;
  if (is_checkpointed_[module] && options_.checkpointed != CheckpointedPart::kBlock) {
    name += std::string(" without ") + std::string(name_of(options_.checkpointed));
  }
  int64_t width = batch.input_ids_BT.size(1);
  if (batch.decoder_input_ids_BT.defined()) width += batch.decoder_input_ids_BT.size(1);
  return {.name = std::move(name),
          .rows = batch.input_ids_BT.size(0),
          .width = width,
          .part = TimePart::kKernelsForward};
}

void Engine::run_module(int module, int unit, const Batch& batch, Tape& tape,
                        Activations& activations) {
  Pass pass{kernels_, batch, tape, activations};
  if (is_checkpointed_[module]) pass.recomputed = options_.checkpointed;
  const MemoryScope scope(unit, is_last_module(module) ? MemoryUse::kHead : MemoryUse::kHidden);
  compute(unit, is_last_module(module) && tape.wants_gradients(), [&] {
    const WorkScope work([&] { return work_of(module, forward_name(tape), batch); });
    model_.modules[module]->forward(pass);
  });
}

at::Tensor Engine::forward(const Batch& batch) {
  Activations activations;
  for (int u = 0; u < unit_count(); ++u) {
    const bool is_shared_unit = is_shared(model_, units_[u]);
    gather_ahead(u, +1);
    strategy_.wait_whole(u);
    // The last module writes gradients in its forward, for its own unit and for a shared unit.
    if (u + 1 == unit_count() || is_shared_unit) strategy_.attach_gradient(u);
    for (int i = units_[u].first; i <= units_[u].last; ++i) {
      forward_module(i, u, batch, activations);
    }
    const bool backward_begins_here = u + 1 + options_.prefetch >= unit_count();
    const bool is_resharded = strategy_.reshard_after_forward() && !backward_begins_here;
    // A shared unit is read again by the last module.
    if ((is_resharded || u < first_trained_unit_) && !is_shared_unit) strategy_.release(u);
  }
  return activations.at(kLoss).value;
}

void Engine::forward_module(int module, int unit, const Batch& batch, Activations& activations) {
  Kept& kept = kept_[module];
  if (!is_recomputed(module)) {
    kept.tape = Tape(Tape::Mode::kRecord);
    run_module(module, unit, batch, kept.tape, activations);
    return;
  }
  kept.before = activations;
  Tape forgotten(Tape::Mode::kForget);
  run_module(module, unit, batch, forgotten, activations);
  kept.after = activations;
  // Later modules write into these gradients. The values come again in recompute().
  for (auto& [name, activation] : kept.after) activation.value.reset();
}

void Engine::backward(const Batch& batch) {
  for (int u = unit_count() - 1; u >= first_trained_unit_; --u) {
    gather_ahead(u, -1);
    strategy_.wait_whole(u);
    strategy_.attach_gradient(u);
    for (int i = units_[u].last; i >= units_[u].first; --i) backward_module(i, u, batch);
    strategy_.release(u);
    strategy_.reduce(u);
  }
  for (int u = 0; u < first_trained_unit_; ++u) {
    if (is_shared(model_, units_[u])) strategy_.release(u);
  }
  strategy_.finish_backward();
}

void Engine::backward_module(int module, int unit, const Batch& batch) {
  if (is_recomputed(module)) recompute(module, unit, batch);
  const MemoryScope scope(unit, MemoryUse::kActivationGradients);
  compute(unit, /*writes_gradient=*/true, [&] {
    const WorkScope work([&] { return work_of(module, "backward", batch); });
    kept_[module].tape.run_backward();
  });
}

void Engine::recompute(int module, int unit, const Batch& batch) {
  Kept& kept = kept_[module];
  kept.tape = Tape(Tape::Mode::kRepeat);
  Activations activations = kept.before;
  run_module(module, unit, batch, kept.tape, activations);
  hand_over_gradients(kept.before, kept.after, activations);
  // Without this, the inputs would live until the next micro-batch.
  kept.before.clear();
  kept.after.clear();
}

at::Tensor Engine::evaluate(const Batch& batch) {
  const WithoutAutograd guard;
  const MemoryScope scope(MemoryPhase::kEvaluation);
  Activations activations;
  Tape tape(Tape::Mode::kNoGradients);
  for (int u = 0; u < unit_count(); ++u) {
    gather_ahead(u, +1);
    strategy_.wait_whole(u);
    for (int i = units_[u].first; i <= units_[u].last; ++i) {
      run_module(i, u, batch, tape, activations);
    }
    if (!is_shared(model_, units_[u])) strategy_.release(u);
  }
  for (int u = 0; u < unit_count(); ++u) {
    if (is_shared(model_, units_[u])) strategy_.release(u);
  }
  return activations.at(kLoss).value;
}

}  // namespace fsdp
